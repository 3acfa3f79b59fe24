package docker

// IsGVisor lets tests judge runtimes that no daemon of theirs has.
var IsGVisor = isGVisor
