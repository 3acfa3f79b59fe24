package devserver

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/persistence/sql/sqlplugin"
	"go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	schema "go.temporal.io/server/schema/sqlite"
)

// pragmas of every connection. WAL halves the cost of a transaction compared with the rollback journal.
// With WAL, NORMAL survives a kill of the process at any point; only a power cut can lose the last
// transactions, and it cannot corrupt the database.
var pragmas = [...][2]string{{"journal_mode", "wal"}, {"synchronous", "normal"}}

// DatabaseFile is where a folder keeps the database of this build.
func DatabaseFile(dir string) string {
	return filepath.Join(dir, "temporal-"+schema.Version+".db")
}

// store is the persistence configuration of a database file. MaxConns stays at its default of one: with more, SQLite
// refuses the upgrade of a reading transaction to a writing one at once, and the server loses its shard.
func store(file string) *config.SQL {
	attrs := map[string]string{"mode": "rwc"}
	for _, p := range pragmas {
		attrs[p[0]] = p[1]
	}

	return &config.SQL{PluginName: sqlite.PluginName, DatabaseName: escape(file), ConnectAttributes: attrs}
}

// escape escapes a path, which may have any characters, for the SQLite driver's URI.
func escape(file string) string {
	return strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(file)
}

// setupSchema creates the tables of a new database in one transaction: a process that is killed during its
// first start leaves an empty file, not a partial schema.
func setupSchema(ctx context.Context, file string) error {
	// Created here for its mode: SQLite would create a file that everybody can read, and gives its side
	// files the mode of the file.
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	// nothing was written
	_ = f.Close()

	q := url.Values{"mode": {"rwc"}}
	for _, p := range pragmas {
		q.Add("_pragma", p[0]+"="+p[1])
	}

	db, err := sql.Open("sqlite", "file:"+escape(file)+"?"+q.Encode())
	if err != nil {
		return fmt.Errorf("open %s: %w", file, err)
	}
	defer db.Close()

	var tables int

	row := db.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'namespaces'`)
	if err := row.Scan(&tables); err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}

	if tables == 0 {
		if err := createTables(ctx, db, file); err != nil {
			return err
		}
	}

	return dropIndexes(ctx, db, file)
}

// unusedIndexes selects the indexes of the visibility table that no query of rolloutd uses. SQLite updates
// each index at each write of the table, some ten for a rollout, which is two thirds of the cost. A query
// by such an attribute works without its index, too.
const unusedIndexes = `SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = 'executions_visibility' AND sql IS NOT NULL
	AND name NOT IN ('default_idx', 'by_workflow_id', 'by_workflow_type', 'by_status') AND name NOT GLOB 'by_keyword_*'`

func dropIndexes(ctx context.Context, db *sql.DB, file string) error {
	names, err := texts(ctx, db, unusedIndexes)
	if err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}

	for _, name := range names {
		if _, err := db.ExecContext(ctx, `DROP INDEX "`+name+`"`); err != nil {
			return fmt.Errorf("set up %s: drop index %s: %w", file, name, err)
		}
	}

	return nil
}

// texts returns the only column of a query's rows.
func texts(ctx context.Context, db *sql.DB, query string) ([]string, error) {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()

	var all []string

	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}

		all = append(all, text)
	}

	return all, rows.Err()
}

func createTables(ctx context.Context, db *sql.DB, file string) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("set up %s: %w", file, err)
	}

	if err := schema.SetupSchemaOnDB(schemaTx{tx: tx}); err != nil {
		_ = tx.Rollback()
		return fmt.Errorf("set up %s: %w", file, err)
	}

	return tx.Commit()
}

// schemaTx runs the schema's statements in a transaction; SetupSchemaOnDB calls nothing but Exec.
type schemaTx struct {
	sqlplugin.AdminDB
	tx *sql.Tx
}

func (s schemaTx) Exec(stmt string, args ...any) error {
	_, err := s.tx.Exec(stmt, args...)
	return err
}

// checkSchema refuses a folder with a database of a newer schema, whose workflows would otherwise silently be missing.
func checkSchema(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}

	for _, e := range entries {
		found, ok := strings.CutPrefix(e.Name(), "temporal-")

		found, isDB := strings.CutSuffix(found, ".db")
		if ok && isDB && newer(found, schema.Version) {
			return &SchemaError{File: filepath.Join(dir, e.Name()), Found: found, Want: schema.Version}
		}
	}

	return nil
}

// newer compares versions of the form "0.11".
func newer(a, b string) bool {
	var aMajor, aMinor, bMajor, bMinor int
	if _, err := fmt.Sscanf(a, "%d.%d", &aMajor, &aMinor); err != nil {
		return false
	}

	if _, err := fmt.Sscanf(b, "%d.%d", &bMajor, &bMinor); err != nil {
		return false
	}

	return aMajor > bMajor || aMajor == bMajor && aMinor > bMinor
}
