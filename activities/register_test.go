package activities_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"

	"github.com/rolloutd/rolloutd/activities"
)

// registry records the names of registered activities.
type registry struct{ names []string }

func (r *registry) RegisterActivity(any) {}
func (r *registry) RegisterActivityWithOptions(_ any, o activity.RegisterOptions) {
	r.names = append(r.names, o.Name)
}
func (r *registry) RegisterDynamicActivity(any, activity.DynamicRegisterOptions) {}

// Temporal shows activities to operators under these names.
func TestRegisteredNames(t *testing.T) {
	t.Parallel()

	acts := activities.New(activities.Options{})

	var create, local, host, delivery registry
	acts.RegisterCreate(&create)
	acts.RegisterLocal(&local)
	acts.RegisterHost(&host)
	acts.RegisterDelivery(&delivery)
	require.ElementsMatch(t, []string{"CreateSandbox", "Regrade"}, create.names)
	require.ElementsMatch(t, []string{"ComposeResult", "StoreGroup", "StoreProducer", "LoadTask", "StoreRegrade"}, local.names)
	require.ElementsMatch(t, []string{"SinkStatus", "DeliverGroup", "CloseSink", "GroupReports"}, delivery.names)
	require.ElementsMatch(t, []string{
		"InstallOpencode",
		"StartProxy",
		"RunSetup",
		"RunAgent",
		"RunVerifier",
		"HoldSandbox",
		"CollectArtifacts",
		"CloseSandbox",
		"AbortAgent",
	}, host.names)
}
