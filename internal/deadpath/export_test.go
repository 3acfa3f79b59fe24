package deadpath

// For tests: the same with another timeout.
var (
	DialerAfter   = dialer
	ListenerAfter = listener
)
