package upstream

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A file that cannot be written is not written with each answer, and one call at a time writes it.
func TestAnsweredOfAFullDisk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const engine = "http://engine.test"

		file := filepath.Join(t.TempDir(), "missing", "answered.json")
		a, err := LoadAnswered(file)
		require.NoError(t, err)

		a.noteAnswer(engine, false)
		require.True(t, a.any([]string{engine}))

		require.NoError(t, os.Mkdir(filepath.Dir(file), 0o700))
		a.noteAnswer(engine, false)
		require.NoFileExists(t, file, "the last try was just now")

		time.Sleep(saveAgain)
		require.NotNil(t, a.toSave(digestOf(engine), false))
		require.Nil(t, a.toSave(digestOf("http://other.test"), false), "the write is not over")
		require.True(t, a.any([]string{"http://other.test"}))

		a.saving = false
		a.noteAnswer(engine, false)

		again, err := LoadAnswered(file)
		require.NoError(t, err)
		require.True(t, again.any([]string{engine}))
		require.True(t, again.any([]string{"http://other.test"}))
	})
}
