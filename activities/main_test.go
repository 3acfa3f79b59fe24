package activities_test

import "flag"

// update rewrites golden files: go test ./activities -update.
var update = flag.Bool("update", false, "rewrite golden files")
