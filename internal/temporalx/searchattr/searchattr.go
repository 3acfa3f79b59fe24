// Package searchattr names the search attributes by which Temporal's list of workflows is filtered and
// sorted. It does no I/O, so workflow code may use it. The values are not encrypted: nothing private
// belongs here.
package searchattr

import (
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Names, as operators write them in queries: RolloutOutcome = "completed" AND RolloutReward > 0.5.
const (
	NameTask  = "RolloutTask"
	NameGroup = "RolloutGroup"

	// name of the token that asked for the rollout
	NameOwner   = "RolloutOwner"
	NameModel   = "RolloutModel"
	NameOutcome = "RolloutOutcome"
	NamePhase   = "RolloutPhase"

	// the agent's sandbox of the current attempt
	NameSandbox = "RolloutSandbox"
	NameReward  = "RolloutReward"

	// Numbers as JSON
	NameNumbers = "RolloutNumbers"
)

// Keys holds the typed keys.
type Keys struct {
	Task, Group, Owner, Model, Outcome, Phase, Sandbox, Numbers temporal.SearchAttributeKeyKeyword
	Reward                                                      temporal.SearchAttributeKeyFloat64
}

// Typed returns the typed keys.
func Typed() Keys {
	return Keys{
		Task:    temporal.NewSearchAttributeKeyKeyword(NameTask),
		Group:   temporal.NewSearchAttributeKeyKeyword(NameGroup),
		Owner:   temporal.NewSearchAttributeKeyKeyword(NameOwner),
		Model:   temporal.NewSearchAttributeKeyKeyword(NameModel),
		Outcome: temporal.NewSearchAttributeKeyKeyword(NameOutcome),
		Phase:   temporal.NewSearchAttributeKeyKeyword(NamePhase),
		Sandbox: temporal.NewSearchAttributeKeyKeyword(NameSandbox),
		Reward:  temporal.NewSearchAttributeKeyFloat64(NameReward),
		Numbers: temporal.NewSearchAttributeKeyKeyword(NameNumbers),
	}
}

// AtStart are the attributes with which a rollout is started. A later upsert costs an event in the history
// and another write to visibility.
func (k Keys) AtStart(s rollout.Spec) []temporal.SearchAttributeUpdate {
	updates := []temporal.SearchAttributeUpdate{
		k.Phase.ValueSet(string(rollout.PhaseQueued)), k.Model.ValueSet(Keyword(s.Model.Name)),
	}
	if s.Task.ID != "" {
		updates = append(updates, k.Task.ValueSet(Keyword(s.Task.ID)))
	}

	if s.GroupID != "" {
		updates = append(updates, k.Group.ValueSet(Keyword(s.GroupID)))
	}

	if s.Owner != "" {
		updates = append(updates, k.Owner.ValueSet(Keyword(s.Owner)))
	}

	return updates
}

// Names of a rollout's memo, which lists show and cannot filter by. It is encrypted where payloads are.
const (
	MemoAgent    = "agent"
	MemoEndpoint = "endpoint"
)

// Memo is the memo with which a rollout is started.
func Memo(s rollout.Spec) map[string]any {
	return map[string]any{MemoAgent: s.Agent, MemoEndpoint: s.Model.Upstream()}
}

// Types maps each name to its type. A namespace must have the attributes before the first rollout starts.
func Types() map[string]enumspb.IndexedValueType {
	const keyword = enumspb.INDEXED_VALUE_TYPE_KEYWORD

	return map[string]enumspb.IndexedValueType{
		NameTask:    keyword,
		NameGroup:   keyword,
		NameOwner:   keyword,
		NameModel:   keyword,
		NameOutcome: keyword,
		NamePhase:   keyword,
		NameSandbox: keyword,
		NameNumbers: keyword,
		NameReward:  enumspb.INDEXED_VALUE_TYPE_DOUBLE,
	}
}
