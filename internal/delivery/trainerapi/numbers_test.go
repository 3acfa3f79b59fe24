package trainerapi_test

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/delivery/queue"
)

// Lists of numbers are accepted exactly if encoding/json accepts them, with any text after a number.
func TestNumbers(t *testing.T) {
	t.Parallel()
	c := client{t, serve(t)}

	for _, number := range []string{
		"0", "-0", "7", "-7", "00", "01", "-01", "123456", "1234567", "12345678", "123456789", "1234567890", "2147483647", "2147483648", "-2147483648", "-2147483649",
		"1.", ".5", "1.5", "-1.25", "00.5", "0.1234567", "0.12345678", "0.123456789012345678901234567890", "12345678.5", "1e5", "1.5e-07", "1E+5", "1e", "1e999", "-1e999",
		"+1", "-", "--1", "1-", "1_0", "0x1", "NaN", "Infinity", "-Infinity", "null", `"1"`, "[1]", "", " ", " 1", "\t1", "1 ", "1 2", "\u0661", "1\x00", "1/", "1:",
	} {
		for _, list := range []string{number, number + ",1,2", "1," + number + strings.Repeat(",1", 30), "1, " + number + strings.Repeat(", 1", 30), number + strings.Repeat(",1.25", 30)} {
			list = "[" + list + "]"

			var floats []*float64

			ok := json.Unmarshal([]byte(list), &floats) == nil

			whole := ok
			for _, f := range floats {
				ok = ok && f != nil
			}

			for _, text := range strings.Split(strings.Trim(list, "[]"), ",") {
				v, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
				whole = whole && err == nil && v >= math.MinInt32 && v <= math.MaxInt32
			}

			tokens := strings.TrimSuffix(strings.Repeat("1,", len(floats)), ",")
			status, text := c.do(
				"POST",
				"/scored_data",
				fmt.Sprintf(`{"tokens":[[%s]],"masks":[[%[1]s]],"scores":[1],"inference_logprobs":[%s]}`, tokens, list),
			)
			require.Equal(
				t,
				ok && len(floats) > 0 || list == "[]" || list == "[ ]",
				status == http.StatusOK,
				"logprobs %s: %s",
				list,
				text,
			)
			status, text = c.do(
				"POST",
				"/scored_data",
				fmt.Sprintf(`{"tokens":[[%s]],"masks":[%s],"scores":[1]}`, tokens, list),
			)
			require.Equal(
				t,
				whole && len(floats) > 0 || list == "[]" || list == "[ ]",
				status == http.StatusOK,
				"masks %s: %s",
				list,
				text,
			)
		}
	}
}

// The payload of a group is a file until the group is trained on. Files of a killed process are removed.
func TestPayloadFiles(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "q")
	open := func() *queue.Queue {
		q, err := queue.Open(queue.Options{Path: path})
		require.NoError(t, err)

		return q
	}
	payloads := func() (names []string) {
		entries, err := os.ReadDir(path + ".groups")
		require.NoError(t, err)

		for _, e := range entries {
			names = append(names, e.Name())
		}

		return names
	}
	q := open()
	require.NoError(t, q.Register(queue.Registration{BatchSize: 1}))

	for i := range 3 {
		_, err := q.Add(queue.Submission{Sequences: 1, Payload: fmt.Append(nil, i)})
		require.NoError(t, err)
	}

	require.NoError(t, q.Close())
	require.NoError(t, os.WriteFile(filepath.Join(path+".groups", "4.json"), []byte("never recorded"), 0o600))

	q = open()
	defer q.Close()

	require.Equal(t, []string{"1.json", "2.json", "3.json"}, payloads())

	for i := range 3 {
		b, ok, err := q.Take(queue.Lease{Explicit: true})
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, fmt.Sprint(i), string(b.Groups[0]))
		require.NoError(t, q.Ack(b.ID))
	}

	require.Equal(t, []string{"3.json"}, payloads(), "the newest is kept for /latest_example")
	require.NoError(t, q.Reset())
	require.Empty(t, payloads())
}
