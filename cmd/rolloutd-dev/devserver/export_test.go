package devserver

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/server/common/dynamicconfig"
)

// ChoosingPorts are the options with a choice of ports of the test's own; free is the choice that is made otherwise.
func ChoosingPorts(o Options, choose func(front int, free func(int) ([4]int, error)) ([4]int, error)) Options {
	o.choose = func(front int) ([len(services)]int, error) { return choose(front, freePorts) }
	return o
}

// DynamicConfig is the server's dynamic configuration.
func DynamicConfig() map[dynamicconfig.Key]any { return dynamicConfig() }

// FullConn is a connection of SQLite's driver, and MaxStatements how many statements one that keeps them keeps.
type FullConn = fullConn

const MaxStatements = maxStatements

// OpenKeeping opens a database whose connections keep their statements.
func OpenKeeping(d driver.Driver, file string) *sql.DB {
	return sql.OpenDB(connector{driver: d, dsn: dsn(file)})
}

// Kept is how many statements a connection keeps.
func Kept(conn any) int { return len(conn.(*statementKeeper).idle) }

// KeptByServer is how many statements the connection of the server on that folder keeps.
func KeptByServer(ctx context.Context, t *testing.T, dir string) (n int) {
	t.Helper()
	pool, closePool, err := openPool(store(DatabaseFile(dir)))
	require.NoError(t, err)
	defer func() { require.NoError(t, closePool()) }()
	conn, err := pool.Conn(ctx)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.Raw(func(c any) error { n = Kept(c); return nil }))
	return n
}
