package lostconn

// The same functions with another timeout, for tests.
var (
	DialerAfter   = dialer
	ListenerAfter = listener
)
