package devserver

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"reflect"

	"github.com/jmoiron/sqlx"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/metrics"
	persistence "go.temporal.io/server/common/persistence/sql"
	"go.temporal.io/server/common/persistence/sql/sqlplugin"
	"go.temporal.io/server/common/resolver"
)

// keepStatements makes the server's connection to the database keep its prepared statements. SQLite's driver compiles a statement anew at each call, and
// the server calls the same ones again and again.
//
// The server's plugin for SQLite takes no connection of ours. But all parts of the server share one pool of connections to a database, and the *sql.DB in
// it can be replaced before they start. The pool is in a field that is not exported, so this depends on the version of the server; another one is an error.
func keepStatements(db *config.SQL, file string) error {
	pool, closePool, err := openPool(db)
	if err != nil {
		return err
	}
	before := pool.DB
	pool.DB = sql.OpenDB(connector{driver: before.Driver(), dsn: dsn(file)})
	pool.SetMaxOpenConns(1) // as store says
	pool.SetMaxIdleConns(1)
	return errors.Join(before.Close(), closePool())
}

// openPool is the pool of connections that the server's plugin has for the database.
func openPool(db *config.SQL) (pool *sqlx.DB, closePool func() error, err error) {
	handle, err := persistence.NewSQLDB(sqlplugin.DbKindMain, db, resolver.NewNoopResolver(), log.NewNoopLogger(), metrics.NoopMetricsHandler)
	if err != nil {
		return nil, nil, err
	}
	if v := reflect.Indirect(reflect.ValueOf(handle)); v.Kind() == reflect.Struct {
		if f := v.FieldByName("db"); f.IsValid() && f.Type() == reflect.TypeFor[*sqlx.DB]() && !f.IsNil() {
			return (*sqlx.DB)(f.UnsafePointer()), handle.Close, nil
		}
	}
	return nil, nil, errors.Join(fmt.Errorf("the pool of connections of %T is not where it was", handle), handle.Close())
}

// connector opens connections that keep their statements.
type connector struct {
	driver driver.Driver
	dsn    string
}

// Driver implements driver.Connector.
func (c connector) Driver() driver.Driver { return c.driver }

// Connect implements driver.Connector.
func (c connector) Connect(context.Context) (driver.Conn, error) {
	conn, err := c.driver.Open(c.dsn)
	if err != nil {
		return nil, err
	}
	full, ok := conn.(fullConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("%T lacks a method of a connection to SQLite", conn), conn.Close())
	}
	return &statementKeeper{fullConn: full, idle: map[string]driver.Stmt{}}, nil
}

// fullConn is what database/sql uses of a connection of SQLite's driver.
type fullConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

// maxStatements bounds what a connection keeps: the server has some hundred statements, and some of them in a form for each number of rows.
const maxStatements = 256

// statementKeeper is a connection that keeps its prepared statements. One goroutine uses it at a time. A statement in use is not in idle, so a call with the
// same text, while rows of another are being read, prepares one of its own.
type statementKeeper struct {
	fullConn
	idle map[string]driver.Stmt
}

// take returns a statement that nothing else uses until it is given back.
func (k *statementKeeper) take(ctx context.Context, query string) (driver.Stmt, error) {
	if s, ok := k.idle[query]; ok {
		delete(k.idle, query)
		return s, nil
	}
	return k.PrepareContext(ctx, query)
}

// give keeps a statement for its next use. Where too many are kept any other one goes: one in frequent use is soon back.
func (k *statementKeeper) give(query string, s driver.Stmt) error {
	if _, ok := k.idle[query]; ok {
		return s.Close()
	}
	var err error
	for text, other := range k.idle {
		if len(k.idle) < maxStatements {
			break
		}
		delete(k.idle, text)
		err = errors.Join(err, other.Close())
	}
	k.idle[query] = s
	return err
}

// ExecContext implements driver.ExecerContext. A statement that has begun is not interrupted: that would cost a goroutine for each, and the connection.
func (k *statementKeeper) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s, err := k.take(ctx, query)
	if err != nil {
		return nil, err
	}
	res, err := s.(driver.StmtExecContext).ExecContext(context.WithoutCancel(ctx), args)
	return res, errors.Join(err, k.give(query, s))
}

// QueryContext implements driver.QueryerContext.
func (k *statementKeeper) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	s, err := k.take(ctx, query)
	if err != nil {
		return nil, err
	}
	rows, err := s.(driver.StmtQueryContext).QueryContext(ctx, args)
	if err != nil {
		return nil, errors.Join(err, k.give(query, s))
	}
	return &keptRows{Rows: rows, over: func() error { return k.give(query, s) }}, nil
}

// Close implements driver.Conn.
func (k *statementKeeper) Close() error {
	var err error
	for _, s := range k.idle {
		err = errors.Join(err, s.Close())
	}
	clear(k.idle)
	return errors.Join(err, k.fullConn.Close())
}

// keptRows are rows whose statement is kept once they are closed. database/sql closes them once.
type keptRows struct {
	driver.Rows
	over func() error
}

// Close implements driver.Rows.
func (r *keptRows) Close() error { return errors.Join(r.Rows.Close(), r.over()) }
