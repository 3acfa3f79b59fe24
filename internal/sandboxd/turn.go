package sandboxd

import "net/http"

// turn is held by the request that changes the sandbox; so one does at a time, in the order in which they came. A caller that was
// cancelled or killed leaves what it had asked for at work, and who goes on in its place must not work beside that: the verifier's
// workspace would be removed while it is being filled again. A single process may be killed out of turn: that must not wait.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

// take has h wait for its turn, or for its caller to be gone.
func (t turn) take(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case t <- struct{}{}:
			defer func() { <-t }()
		case <-r.Context().Done():
		}
		if r.Context().Err() == nil {
			h(w, r)
		}
	}
}
