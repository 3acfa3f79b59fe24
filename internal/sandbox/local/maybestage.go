package local

// MaybeStage is where a main that makes local sandboxes would become their first step. That step is part of the sandboxd
// binary, which starts faster, so nothing happens here.
func MaybeStage() {}
