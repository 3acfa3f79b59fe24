// Package limits holds requests to model endpoints back: so many at once, so many a second, none during a pause. It knows endpoints by
// name and says how each stands.
package limits
