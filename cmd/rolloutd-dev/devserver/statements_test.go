package devserver_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/cmd/rolloutd-dev/devserver"
)

// counting is SQLite's driver, and counts what it prepares.
type counting struct {
	driver.Driver
	prepared atomic.Int64
}

func (c *counting) Open(name string) (driver.Conn, error) {
	conn, err := c.Driver.Open(name)
	if err != nil {
		return nil, err
	}
	return countingConn{conn.(devserver.FullConn), &c.prepared}, nil
}

type countingConn struct {
	devserver.FullConn
	prepared *atomic.Int64
}

func (c countingConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	c.prepared.Add(1)
	return c.FullConn.PrepareContext(ctx, query)
}

// keeping opens a database with one connection, which keeps its statements.
func keeping(t *testing.T) (*sql.DB, *counting) {
	t.Helper()
	plain, err := sql.Open("sqlite", "")
	require.NoError(t, err)
	c := &counting{Driver: plain.Driver()}
	require.NoError(t, plain.Close())
	db := devserver.OpenKeeping(c, filepath.Join(t.TempDir(), "x.db"))
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	_, err = db.ExecContext(t.Context(), "CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)")
	require.NoError(t, err)
	return db, c
}

const (
	insert = "INSERT INTO t VALUES (?, ?)"
	query  = "SELECT b FROM t WHERE a >= ? ORDER BY a"
)

func texts(t *testing.T, rows *sql.Rows) (all []string) {
	t.Helper()
	for rows.Next() {
		var b string
		require.NoError(t, rows.Scan(&b))
		all = append(all, b)
	}
	require.NoError(t, rows.Err())
	return all
}

// A statement is compiled once, and gives what a new one would: after errors, after a change of the schema, and while an earlier call with its text is being read.
func TestStatementsAreKept(t *testing.T) {
	t.Parallel()
	db, c := keeping(t)
	before := c.prepared.Load()
	for i := range 100 {
		_, err := db.ExecContext(t.Context(), insert, i, fmt.Sprint("row ", i))
		require.NoError(t, err)
		_, err = db.ExecContext(t.Context(), insert, i, "again")
		require.ErrorContains(t, err, "UNIQUE")
		var b string
		require.NoError(t, db.QueryRowContext(t.Context(), query, i).Scan(&b))
		require.Equal(t, fmt.Sprint("row ", i), b)
	}
	require.Equal(t, int64(2), c.prepared.Load()-before)

	_, err := db.ExecContext(t.Context(), "ALTER TABLE t ADD COLUMN c TEXT DEFAULT 'c'")
	require.NoError(t, err)
	_, err = db.ExecContext(t.Context(), insert, 100, "short")
	require.ErrorContains(t, err, "3 columns")

	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	outer, err := tx.QueryContext(t.Context(), query, 98)
	require.NoError(t, err)
	require.True(t, outer.Next())
	inner, err := tx.QueryContext(t.Context(), query, 99)
	require.NoError(t, err)
	require.Equal(t, []string{"row 99"}, texts(t, inner))
	require.Equal(t, []string{"row 99"}, texts(t, outer), "the rest of the outer rows")
	require.NoError(t, tx.Commit())
}

// What is kept is bounded, whatever texts come.
func TestStatementsAreBounded(t *testing.T) {
	t.Parallel()
	db, _ := keeping(t)
	for i := range 1000 {
		var n int
		require.NoError(t, db.QueryRowContext(t.Context(), fmt.Sprintf("SELECT %d", i)).Scan(&n))
		require.Equal(t, i, n)
	}
	conn, err := db.Conn(t.Context())
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.Raw(func(c any) error {
		require.Equal(t, devserver.MaxStatements, devserver.Kept(c))
		return nil
	}))
}

// A canceled call changes nothing, and the connection goes on.
func TestCanceledStatement(t *testing.T) {
	t.Parallel()
	db, _ := keeping(t)
	ctx, cancel := context.WithCancel(t.Context())
	tx, err := db.BeginTx(ctx, nil)
	require.NoError(t, err)
	_, err = tx.ExecContext(ctx, insert, 1, "one")
	require.NoError(t, err)
	cancel()
	_, err = tx.ExecContext(ctx, insert, 2, "two")
	require.Error(t, err)
	require.Error(t, tx.Commit())
	rows, err := db.QueryContext(t.Context(), query, 0)
	require.NoError(t, err)
	defer rows.Close()
	require.Empty(t, texts(t, rows))
}

// The server's own connection is such a one.
func TestServerKeepsStatements(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	srv, err := devserver.Start(t.Context(), options(dir))
	require.NoError(t, err)
	defer func() { require.NoError(t, srv.Stop(context.WithoutCancel(t.Context()))) }()
	require.Positive(t, devserver.KeptByServer(t.Context(), t, dir))
}
