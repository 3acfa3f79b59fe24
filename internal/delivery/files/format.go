package files

import (
	"bytes"
	"encoding/json"
	"io"

	"github.com/parquet-go/parquet-go"
)

// Format is the format of a file; it is also the extension of its name.
type Format string

const (
	// JSONLines has one sequence per line, as GET /groups/{id}/trajectory?format=jsonl.
	JSONLines Format = "jsonl"
	// Parquet has one sequence per row, with the fields of a line as columns. Lists of objects, and objects, are JSON text.
	Parquet Format = "parquet"
)

// write writes the groups, given as lines of JSON.
func (f Format) write(w io.Writer, groups func(func([]byte) error) error) error {
	if f == Parquet {
		return writeRows(w, groups)
	}

	return groups(func(lines []byte) error {
		_, err := w.Write(lines)
		return err
	})
}

// row is a sequence in Parquet.
type row struct {
	RolloutID string          `parquet:"rollout_id" json:"rollout_id"`
	GroupID   string          `parquet:"group_id" json:"group_id"`
	TaskID    string          `parquet:"task_id" json:"task_id"`
	Outcome   string          `parquet:"outcome" json:"outcome"`
	Reward    float64         `parquet:"reward" json:"reward"`
	Number    int32           `parquet:"sequence" json:"sequence"`
	Trained   int32           `parquet:"trained" json:"trained"`
	Lineage   string          `parquet:"lineage" json:"lineage"`
	Branch    string          `parquet:"branch" json:"branch"`
	TokenIDs  []int32         `parquet:"token_ids,list" json:"token_ids"`
	LossMask  []int32         `parquet:"loss_mask,list" json:"loss_mask"`
	Logprobs  []float64       `parquet:"logprobs,list" json:"logprobs"`
	Spans     json.RawMessage `parquet:"spans,string" json:"spans"`
	Rewards   json.RawMessage `parquet:"rewards,string,optional" json:"rewards"`
	Images    json.RawMessage `parquet:"images,string,optional" json:"images"`
	Experts   json.RawMessage `parquet:"routed_experts,string,optional" json:"routed_experts"`
	End       string          `parquet:"end" json:"end"`

	GroupKey         string   `parquet:"group_key" json:"group_key"`
	Advantage        *float64 `parquet:"advantage,optional" json:"advantage"`
	CentredAdvantage *float64 `parquet:"centred_advantage,optional" json:"centred_advantage"`
}

// writeRows holds the rows of one group in memory, besides the writer's row group.
func writeRows(w io.Writer, groups func(func([]byte) error) error) error {
	out := parquet.NewGenericWriter[row](w, parquet.Compression(&parquet.Zstd))

	err := groups(func(lines []byte) error {
		dec := json.NewDecoder(bytes.NewReader(lines))
		for dec.More() {
			var r row
			if err := dec.Decode(&r); err != nil {
				return err
			}

			if _, err := out.Write([]row{r}); err != nil {
				return err
			}
		}

		return nil
	})
	if err != nil {
		return err
	}

	return out.Close()
}
