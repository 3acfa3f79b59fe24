package traceindex

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"io"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trajectory/sequence"
	"github.com/rolloutd/rolloutd/internal/trajectory/tokens"
	"github.com/rolloutd/rolloutd/internal/trajectory/transcript"
)

const (
	// version changes with every change of what a block has, and of the rules of sequences: an index of another version
	// is made again.
	version = 2

	// maxTable bounds the table of an index in bytes, before it is read.
	maxTable = 256 << 20

	// sizes of blocks: the texts of turns in bytes, and tokens
	turnBytes   = 512 << 10
	blockTokens = 4096
)

// Trace says which trace an index is of.
type Trace struct {
	Size int64 `json:"size"`

	// digest of its last TailBytes
	Tail string `json:"tail"`
}

// TailBytes is how much of a trace's end Trace.Tail covers. The end has the whole conversation of the latest turns.
const TailBytes = 64 << 10

// table says where everything is.
type table struct {
	Trace Trace       `json:"trace"`
	Turns []turnBlock `json:"turns"`

	// parts that a page does not have whole, by turn: []longPart
	Long map[int]extent `json:"long,omitempty"`

	// whether a subagent made a call: its sequences are not in the index
	Subagents bool `json:"subagents,omitempty"`

	// why there are no sequences
	Refusal *refusal `json:"refusal,omitempty"`

	// a tokens.View of no sequence, and the blocks of each
	Summary   extent           `json:"summary"`
	Sequences []sequenceBlocks `json:"sequences"`
}

// turnBlock is a block of []transcript.Turn.
type turnBlock struct {
	extent

	// number of its last turn
	Last int `json:"last"`
}

// longPart is a part whose text is in blocks of transcript.MaxRange bytes.
type longPart struct {
	// without the text
	transcript.Part

	// its number in the turn
	Number int      `json:"number"`
	Blocks []extent `json:"blocks"`
}

// sequenceBlocks has the places of a tokens.View, without its tokens and its summary, and of the sequence's tokenBlocks, of
// blockTokens tokens each.
type sequenceBlocks struct {
	View   extent   `json:"view"`
	Length int      `json:"length"`
	Tokens []extent `json:"tokens"`
}

// tokenBlock has tokens in columns.
type tokenBlock struct {
	IDs     []int32
	Trained []bool

	// numbers of their texts from 1; 0: none
	Texts []int32
	Text  []string

	// which tokens are sampled, and the log probabilities of those
	Sampled  []bool
	Logprobs []float64
}

// refusal is an error of the training sequences.
type refusal struct {
	Kind fault.Kind `json:"kind"`
	Text string     `json:"text"`
}

// extent is a block of the index.
type extent struct {
	At   int64  `json:"at"`
	Size int64  `json:"size"`
	Sum  uint32 `json:"sum"`
}

// footer ends an index. Its table is before it.
type footer struct {
	Table extentBytes
	Magic [8]byte
}

// extentBytes is an extent of fixed size.
type extentBytes struct {
	At, Size int64
	Sum      uint32
}

var magic = [8]byte{'t', 'r', 'a', 'c', 'e', 'i', 'x', version}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// out writes blocks one after another.
type out struct {
	w  io.Writer
	at int64
}

func (o *out) block(data []byte) (extent, error) {
	e := extent{o.at, int64(len(data)), crc32.Checksum(data, castagnoli)}
	n, err := o.w.Write(data)
	o.at += int64(n)

	return e, err
}

func (o *out) json(v any) (extent, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return extent{}, fault.Wrap(fault.Internal, err, "encode a block of an index")
	}

	return o.block(data)
}

func (o *out) finish(t table) error {
	e, err := o.json(t)
	if err != nil {
		return err
	}

	return binary.Write(o.w, binary.LittleEndian, footer{extentBytes(e), magic})
}

// in reads blocks.
type in struct {
	r    io.ReaderAt
	size int64
}

// block reads a block. One that is not what the index was made with is ErrUnusable.
func (i in) block(e extent) ([]byte, error) {
	if e.At < 0 || e.Size < 0 || e.Size > i.size || e.At > i.size-e.Size {
		return nil, unusable("a block is outside of it")
	}

	data := make([]byte, e.Size)
	if n, err := i.r.ReadAt(data, e.At); n < len(data) {
		return nil, fault.Wrap(fault.Unavailable, err, "read the index of a trace")
	}

	if crc32.Checksum(data, castagnoli) != e.Sum {
		return nil, unusable("a block is damaged")
	}

	return data, nil
}

func (i in) json(e extent, into any) error {
	data, err := i.block(e)
	if err != nil {
		return err
	}

	if err := json.Unmarshal(data, into); err != nil {
		return unusable("a block is no JSON of its kind")
	}

	return nil
}

func (i in) table() (t table, err error) {
	var f footer

	end := int64(binary.Size(f))
	if i.size < end {
		return t, unusable("it is too short")
	}

	data := make([]byte, end)
	if n, err := i.r.ReadAt(data, i.size-end); n < len(data) {
		return t, fault.Wrap(fault.Unavailable, err, "read the index of a trace")
	}

	if err := binary.Read(bytes.NewReader(data), binary.LittleEndian, &f); err != nil || f.Magic != magic {
		return t, unusable("it has another version")
	}

	if f.Table.Size > maxTable {
		return t, unusable("its table is too long")
	}

	return t, i.json(extent(f.Table), &t)
}

// headOf is a view without what another block has.
func headOf(v tokens.View) tokens.View {
	v.Sequences, v.Skipped, v.Tokens = nil, nil, nil
	return v
}

// subagentMade reports whether a turn is in other sequences than those of the index.
func subagentMade(t *rollout.Turn) bool { return t.Kind == rollout.KindSubagent }

// covers reports whether the index has the sequences that are asked for. It does not know of summaries.
func (t *table) covers(c sequence.Choice) bool {
	return c.Summaries != sequence.TrainSummaries && (c.Subagents != sequence.SeparateSubagents || !t.Subagents)
}
