# Workers of two kinds: memory, and a Garden server with the Baggageclaim server beside it.
plugin "memory" { command = "slipway-memory" }
plugin "garden" { command = "slipway-garden" }

worker "memory" { plugin = "memory" }

# Takes only steps that ask for its tag.
worker "reports" {
  plugin = "memory"
  tags   = ["reports"]
}

worker "containers" {
  plugin = "garden"
  config {
    garden       = env("GARDEN")       # such as tcp://10.0.0.5:7777
    baggageclaim = env("BAGGAGECLAIM") # such as http://10.0.0.5:7788
  }
}
