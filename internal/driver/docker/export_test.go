package docker

// IsGVisor is exported to test runtimes that the test daemon does not have.
var IsGVisor = isGVisor
