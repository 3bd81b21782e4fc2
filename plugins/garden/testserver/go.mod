// The servers that tests of the Garden plugin run against, at their own versions: real Baggageclaim and Houdini.
module github.com/slipway-run/slipway/plugins/garden/testserver

go 1.26.8

tool (
	github.com/concourse/baggageclaim/cmd/baggageclaim
	github.com/concourse/houdini/cmd/houdini
)

require (
	code.cloudfoundry.org/garden v0.0.0-20260429025054-3f9ac7a76d56 // indirect
	code.cloudfoundry.org/lager v1.1.0 // indirect
	code.cloudfoundry.org/lager/v3 v3.67.0 // indirect
	github.com/Masterminds/semver/v3 v3.4.0 // indirect
	github.com/bmizerany/pat v0.0.0-20210406213842-e4b6760bdd6f // indirect
	github.com/charlievieth/fs v0.0.3 // indirect
	github.com/concourse/baggageclaim v1.11.0 // indirect
	github.com/concourse/flag v0.0.0-20180907155614-cb47f24fff1c // indirect
	github.com/concourse/go-archive v1.0.1 // indirect
	github.com/concourse/houdini v1.3.0 // indirect
	github.com/dgrijalva/jwt-go v3.2.0+incompatible // indirect
	github.com/go-task/slim-sprig/v3 v3.0.0 // indirect
	github.com/google/pprof v0.0.0-20260402051712-545e8a4df936 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/jessevdk/go-flags v1.4.0 // indirect
	github.com/klauspost/compress v1.17.8 // indirect
	github.com/nu7hatch/gouuid v0.0.0-20131221200532-179d4d0c4d8d // indirect
	github.com/onsi/ginkgo/v2 v2.28.3 // indirect
	github.com/openzipkin/zipkin-go v0.4.3 // indirect
	github.com/pkg/term v1.2.0-beta.2 // indirect
	github.com/tedsuo/ifrit v0.0.0-20180802180643-bea94bb476cc // indirect
	github.com/tedsuo/rata v1.0.1-0.20170830210128-07d200713958 // indirect
	golang.org/x/crypto v0.22.0 // indirect
	golang.org/x/mod v0.35.0 // indirect
	golang.org/x/sync v0.20.0 // indirect
	golang.org/x/sys v0.43.0 // indirect
	golang.org/x/tools v0.44.0 // indirect
)
