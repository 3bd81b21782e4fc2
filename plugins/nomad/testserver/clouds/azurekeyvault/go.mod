module github.com/hashicorp/go-kms-wrapping/wrappers/azurekeyvault/v2

go 1.26.8

require github.com/hashicorp/go-kms-wrapping/v2 v2.0.16
