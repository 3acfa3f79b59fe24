package toolclient

// Told is an error that the server told: it is there itself, whatever it lacks.
type Told struct{ Err error }

func (e *Told) Error() string { return e.Err.Error() }

func (e *Told) Unwrap() error { return e.Err }
