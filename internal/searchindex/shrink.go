package searchindex

import (
	"context"
	"database/sql"
	"errors"
)

// shrink forgets the texts of the rollouts that ended first, until the used part of the file is within the bound. The
// file itself does not shrink; what is added next takes the room. The rows of these rollouts stay, so that they are not
// added again.
func (x *Index) shrink(ctx context.Context) error {
	if x.maxBytes == 0 {
		return nil
	}

	for {
		used, err := x.used(ctx)
		if err != nil || used <= x.maxBytes {
			return err
		}

		forgotten, err := x.forget(ctx, used-x.maxBytes)
		if err != nil || forgotten == 0 {
			return err
		}

		x.log.InfoContext(ctx, "the index of transcripts forgot its oldest", "rollouts", forgotten, "bytes", used)
	}
}

// used is the size of the pages that have something, in bytes.
func (x *Index) used(ctx context.Context) (bytes int64, err error) {
	err = x.db.QueryRowContext(ctx, `SELECT (c.page_count - f.freelist_count) * s.page_size
		FROM pragma_page_count c, pragma_freelist_count f, pragma_page_size s`).Scan(&bytes)

	return bytes, err
}

// forget removes the oldest texts with at least so many bytes, and returns their number. The words of removed texts
// leave the file at once, not with a later merge, so that used shows it.
func (x *Index) forget(ctx context.Context, bytes int64) (n int64, err error) {
	err = x.change(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "INSERT INTO texts (texts, rank) VALUES ('secure-delete', 1)"); err != nil {
			return err
		}

		last, err := oldest(ctx, tx, bytes)
		if err != nil {
			return err
		}

		done, err := tx.ExecContext(ctx, "DELETE FROM texts WHERE rowid <= ?", last)
		if err != nil {
			return err
		}

		n, err = done.RowsAffected()

		return err
	})

	return n, err
}

// oldest returns the number of the last rollout of those that ended first whose texts have so many bytes.
func oldest(ctx context.Context, tx *sql.Tx, bytes int64) (last int64, err error) {
	rows, err := tx.QueryContext(ctx, "SELECT rowid, octet_length(text) FROM texts ORDER BY rowid")
	if err != nil {
		return 0, err
	}

	defer func() { err = errors.Join(err, rows.Close()) }()

	for bytes > 0 && rows.Next() {
		var size int64
		if err := rows.Scan(&last, &size); err != nil {
			return 0, err
		}

		bytes -= size
	}

	return last, rows.Err()
}
