package searchindex

import (
	"context"
	"errors"
	"strings"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/store"
	"github.com/rolloutd/rolloutd/internal/text"
	"github.com/rolloutd/rolloutd/internal/trajectory/transcript"
	"github.com/rolloutd/rolloutd/internal/trajectory/turns"
)

// Bounds of what is found of a rollout, in bytes.
const (
	// maxText bounds the text of a rollout.
	maxText = 256 << 10
	// maxPart bounds a text of it: of a longer one half of this from its begin and half from its end.
	maxPart = 8 << 10
)

// document is what the index has of a rollout.
type document struct {
	listed rollout.Listed
	course course
	text   strings.Builder
}

// errFull: the document has as much text as it may have.
var errFull = errors.New("the text is long enough")

// add adds a text.
func (d *document) add(part string) error {
	if part = strings.TrimSpace(part); part == "" {
		return nil
	}

	if len(part) > maxPart {
		part = text.Head(part, maxPart/2) + " … " + text.Tail(part, maxPart/2)
	}

	if d.text.Len()+len(part) > maxText {
		return errFull
	}

	// SQLite ends some texts at a zero byte
	d.text.WriteString(strings.ReplaceAll(strings.ToValidUTF8(part, "\uFFFD"), "\x00", "\uFFFD"))
	d.text.WriteByte('\n')

	return nil
}

// readHead reads a result without its large parts; fault.NotFound: the rollout has none yet.
func readHead(ctx context.Context, s *store.Store, id string) (head rollout.Result, err error) {
	err = s.JSON(ctx, store.HeadKey(id), &head)
	if fault.Is(err, fault.NotFound) {
		// a rollout of an earlier version has only the whole result
		err = s.JSON(ctx, store.ResultKey(id), &head)
	}

	return head, err
}

// read reads a rollout; fault.NotFound: it has no result yet.
func read(ctx context.Context, s *store.Store, id string) (*document, error) {
	head, err := readHead(ctx, s, id)
	if err != nil {
		return nil, err
	}

	d := &document{listed: head.Listed()}
	d.listed.ID = id
	d.course = courseOf(head, *d.listed.FinishedAt)

	err = d.addResult(head)
	for n := len(head.Attempts); n > 0 && err == nil; n-- {
		var found bool
		if found, err = d.addTrace(ctx, s, store.AttemptKey(id, n, store.Trace)); found {
			break
		}
	}

	if errors.Is(err, errFull) {
		err = nil
	}

	return d, err
}

// addResult adds why the rollout ended so, and what the verifier wrote.
func (d *document) addResult(r rollout.Result) error {
	parts := []string{r.ID, r.TaskID, r.Grading.Why, r.VerifierStdout, r.VerifierStderr}
	if r.Error != nil {
		parts = append(parts, *r.Error)
	}

	for _, command := range append(r.SetupResults, r.VerifyResults...) {
		parts = append(parts, command.Cmd, command.Stdout, command.Stderr)
	}

	for _, part := range parts {
		if err := d.add(part); err != nil {
			return err
		}
	}

	return nil
}

// addTrace adds the conversation, if there is that trace. One that cannot be read to its end is found by what was read.
func (d *document) addTrace(ctx context.Context, s *store.Store, trace string) (found bool, err error) {
	lines, err := s.Reader(ctx, trace)
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}

	if err != nil {
		return false, err
	}

	defer lines.Close()

	conversation := transcript.NewConversation()

	err = turns.Each(lines, turns.Bounded, func(t *rollout.Turn) error { return d.addTurn(t, conversation.Turn(t)) })
	if fault.Is(err, fault.Internal) || fault.Is(err, fault.Exhausted) {
		err = nil
	}

	return true, err
}

// addTurn adds the versions and the texts of a turn. The system's prompt is the agent's, the same in many rollouts.
func (d *document) addTurn(raw *rollout.Turn, t transcript.Turn) error {
	d.course.addTurn(raw)

	if d.listed.Model == "" {
		d.listed.Model = t.Model
	}

	for _, part := range t.Parts {
		if part.Kind == transcript.System {
			continue
		}

		if err := d.add(part.Name + " " + part.Text); err != nil {
			return err
		}
	}

	return nil
}
