# Workers of three kinds: memory, a Garden server with the Baggageclaim server beside it, and the nodes of a Nomad cluster.
plugin "memory" { command = "slipway-memory" }
plugin "garden" { command = "slipway-garden" }
plugin "nomad" { command = "slipway-nomad" }

worker "memory" { plugin = "memory" }

worker "containers" {
  plugin = "garden"
  config {
    garden       = env("GARDEN")       # such as tcp://10.0.0.5:7777
    baggageclaim = env("BAGGAGECLAIM") # such as http://10.0.0.5:7788
  }
}

worker "cluster" {
  plugin = "nomad"
  config {
    address      = env("NOMAD_ADDR")          # such as http://10.0.0.1:4646
    image        = env("NOMAD_IMAGE")         # of docker, for containers and stores that name none, such as busybox:1.36
    shim_listen  = env("SLIPWAY_LISTEN")      # where nodes fetch slipway's programs from, such as :4650
    shim_address = env("SLIPWAY_ADDRESS")     # the same as nodes reach it, such as http://10.0.0.9:4650
    store { host_volume = "slipway" }         # which each node has
  }
}
