package rollout

// Filter selects rollouts; empty fields select all.
type Filter struct {
	Status  string // "running" or "done"
	TaskID  string
	GroupID string
	Outcome Outcome
	Limit   int    // of one page
	Cursor  string // Page.Next of the page before
}

// Page is a part of a list, newest first. Next is empty on the last one.
type Page struct {
	Rollouts []State `json:"rollouts"`
	Next     string  `json:"next,omitempty"`
}
