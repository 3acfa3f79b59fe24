package sandboxd

import "net/http"

// turn serializes the requests that change the sandbox, in the order of their arrival. A canceled caller's
// request may still be running, and its successor must not run beside it: the verifier's workspace would be
// removed while it is being filled again. Killing a single process takes no turn, since it must not wait.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

// awaitTurn makes h wait for its turn, unless its caller disconnects.
func (t turn) awaitTurn(h http.HandlerFunc) http.HandlerFunc {
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
