#!/bin/sh
# Makes the messages' Python modules out of the published .proto files, beside the plugin or in the directory given.
set -eu
to=$(cd "${1:-$(dirname "$0")}" && pwd)
cd "$(dirname "$0")/../../sdk/proto"
find slipway -name '*.proto' -exec protoc -I . --python_out="$to" {} +
