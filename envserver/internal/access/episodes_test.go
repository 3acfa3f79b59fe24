package access_test

import (
	"context"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver/internal/access"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// ofAlice has rollouts of alice alone.
type ofAlice struct{ access.Rollouts }

func (ofAlice) Owner(context.Context, string) (string, error) { return "alice", nil }

// No method of an episode serves another client than its own.
func TestEpisodesOfOthersAreNotFound(t *testing.T) {
	t.Parallel()

	// the hosts are never asked: there are none
	episodes := reflect.ValueOf(access.NewOwnedEpisodes(nil, ofAlice{}))
	bob := access.WithCaller(t.Context(), access.Token{Name: "bob", Scope: access.ScopeClient})

	for i := range episodes.NumMethod() {
		name, method := episodes.Type().Method(i).Name, episodes.Method(i)

		arguments := []reflect.Value{reflect.ValueOf(bob), reflect.ValueOf("r1")}
		for j := len(arguments); j < method.Type().NumIn(); j++ {
			arguments = append(arguments, reflect.Zero(method.Type().In(j)))
		}

		returned := method.Call(arguments)
		err, _ := returned[len(returned)-1].Interface().(error)
		require.True(t, fault.Is(err, fault.NotFound), "%s: %v", name, err)
	}
}
