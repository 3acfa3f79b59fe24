package rollouts

import (
	"strconv"
	"strings"
	"time"

	"github.com/rolloutd/rolloutd/internal/producer"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/temporalx/searchattr"
)

// label is an attribute that a rollout must have to be in a list.
type label struct{ name, want string }

func labelsOf(f rollout.Filter) []label {
	var labels []label

	for _, l := range []label{
		{searchattr.NameTask, f.TaskID}, {searchattr.NameGroup, f.GroupID}, {searchattr.NameOwner, f.Owner},
		{searchattr.NameModel, f.Model}, {searchattr.NameOutcome, string(f.Outcome)},
	} {
		if l.want != "" {
			labels = append(labels, label{l.name, searchattr.Keyword(l.want)})
		}
	}

	return labels
}

func queryOf(workflow string, f rollout.Filter, labels []label) string {
	terms := []string{"WorkflowType = '" + workflow + "'"}

	switch f.Status {
	case rollout.StatusRunning:
		terms = append(terms, "ExecutionStatus = 'Running'")
	case rollout.StatusDone:
		terms = append(terms, "ExecutionStatus != 'Running'")
	}

	if f.IDPrefix != "" {
		terms = append(terms, "WorkflowId STARTS_WITH '"+workflowIDOf(workflow, f.IDPrefix)+"'")
	}

	if f.ProducerID != "" {
		terms = append(terms, "WorkflowId STARTS_WITH '"+workflowIDOf(workflow, f.ProducerID+"-")+"'")
	}

	for _, l := range labels {
		terms = append(terms, l.term())
	}

	return strings.Join(append(terms, bounds(f)...), " AND ")
}

// workflowIDOf is the id of a workflow of that type, or a prefix of one.
func workflowIDOf(workflow, id string) string {
	switch workflow {
	case rollout.GroupWorkflowName:
		return rollout.GroupWorkflowID(id)
	case producer.WorkflowName:
		return producer.WorkflowID(id)
	default:
		return rollout.WorkflowID(id)
	}
}

// bounds are the terms of the ranges of reward and start.
func bounds(f rollout.Filter) (terms []string) {
	if f.MinReward != nil {
		terms = append(terms, searchattr.NameReward+" >= "+number(*f.MinReward))
	}

	if f.MaxReward != nil {
		terms = append(terms, searchattr.NameReward+" <= "+number(*f.MaxReward))
	}

	if !f.Since.IsZero() {
		terms = append(terms, "StartTime >= "+moment(f.Since))
	}

	if !f.Until.IsZero() {
		terms = append(terms, "StartTime < "+moment(f.Until))
	}

	return terms
}

func number(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

func moment(t time.Time) string { return "'" + t.UTC().Format(time.RFC3339Nano) + "'" }

// term selects the label, or a prefix of it before characters that a query cannot have: Temporal's SQL
// stores (server v1.32.1) compare quotes, backslashes and control characters in the escaped form of MySQL,
// and that of PostgreSQL reads a ? as a parameter.
func (l label) term() string {
	if l.name == searchattr.NameOutcome && l.want == string(rollout.InfraFailed) {
		// as listed has it
		return "(" + l.name + " = '" + l.want + "' OR (" + l.name + " IS NULL AND ExecutionStatus != 'Running'))"
	}

	plain := l.want
	if i := strings.IndexFunc(plain, unqueryable); i >= 0 {
		plain = plain[:i]
	}

	switch plain {
	case l.want:
		return l.name + " = '" + plain + "'"
	case "":
		return l.name + " IS NOT NULL"
	default:
		return l.name + " STARTS_WITH '" + plain + "'"
	}
}

func unqueryable(r rune) bool { return r < ' ' || strings.ContainsRune(`'"\?`, r) }
