// Package nomad observes and changes the Nomad job of a pool.
package nomad

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/pool"
)

// callTimeout bounds one request to Nomad.
const callTimeout = 20 * time.Second

// maxAnswer bounds an answer of Nomad, in bytes: a job of 200 groups with its allocations has some 2 MiB.
const maxAnswer = 32 << 20

// Access has the credentials for a pool's Nomad. Files are paths of PEM files.
type Access struct {
	Token                                     string
	CACert, ClientCert, ClientKey, ServerName string

	// the server's certificate is not checked
	Insecure bool
}

// Client changes the job of one pool. It is safe for concurrent use.
type Client struct {
	spec pool.Spec
	api  *api.Client
}

// New makes a client. It sends nothing.
func New(s pool.Spec, a Access) (*Client, error) {
	transport := &http.Transport{
		TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout: callTimeout,
		MaxIdleConnsPerHost: 1,
		IdleConnTimeout:     time.Minute,
	}
	h := &http.Client{Transport: transport, Timeout: callTimeout}

	files := &api.TLSConfig{
		CACert:        a.CACert,
		ClientCert:    a.ClientCert,
		ClientKey:     a.ClientKey,
		TLSServerName: a.ServerName,
		Insecure:      a.Insecure,
	}
	if err := api.ConfigureTLS(h, files); err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "TLS of Nomad (NOMAD_CACERT, NOMAD_CLIENT_CERT, NOMAD_CLIENT_KEY)")
	}

	h.Transport = bounded{transport}

	c, err := api.NewClient(&api.Config{
		Address:    s.NomadAddress,
		Region:     s.Region,
		Namespace:  s.Namespace,
		SecretID:   a.Token,
		HttpClient: h,
	})
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "nomad_address")
	}

	return &Client{spec: s, api: c}, nil
}

// Close closes idle connections.
func (c *Client) Close() { c.api.Close() }

// Observe returns the current job in Nomad. An ambiguous answer is an error.
func (c *Client) Observe(ctx context.Context) (pool.Job, error) {
	job, err := c.job(ctx)
	if err != nil {
		return pool.Job{}, err
	}

	if job == nil {
		return pool.Job{Groups: groups(c.spec, nil, nil)}, nil
	}

	allocs, _, err := c.api.Jobs().Allocations(c.spec.JobID, false, c.query(ctx))
	if err != nil {
		return pool.Job{}, c.failed(err, "list the allocations of Nomad job %s", c.spec.JobID)
	}
	// Nomad sends an empty list
	if allocs == nil {
		return pool.Job{}, fault.New(fault.Unavailable,
			"list the allocations of Nomad job %s: the answer is not a list",
			c.spec.JobID)
	}

	deployment, _, err := c.api.Jobs().LatestDeployment(c.spec.JobID, c.query(ctx))
	if err != nil {
		return pool.Job{}, c.failed(err, "read the deployment of Nomad job %s", c.spec.JobID)
	}

	return pool.Job{
		Exists:      true,
		Index:       *job.JobModifyIndex,
		Owner:       job.Meta[metaOwner],
		Stopped:     job.Stop != nil && *job.Stop,
		SubmittedAt: submitted(job),
		Deploying:   active(deployment),
		Groups:      groups(c.spec, job, allocs),
	}, nil
}

// job reads the job; nil: Nomad has none.
func (c *Client) job(ctx context.Context) (*api.Job, error) {
	job, _, err := c.api.Jobs().Info(c.spec.JobID, c.query(ctx))

	var answer api.UnexpectedResponseError
	if errors.As(err, &answer) && answer.StatusCode() == http.StatusNotFound &&
		strings.Contains(answer.Body(), "job not found") {
		// no job, no error
		return nil, nil
	}

	if err != nil {
		return nil, c.failed(err, "read Nomad job %s", c.spec.JobID)
	}

	if job == nil || job.ID == nil || *job.ID != c.spec.JobID || job.JobModifyIndex == nil || *job.JobModifyIndex == 0 {
		return nil, fault.New(fault.Unavailable, "read Nomad job %s: the answer is not that job", c.spec.JobID)
	}

	return job, nil
}

// Register changes the counts of groups of the observed job. The error is a fault.Conflict if the job was
// changed since.
func (c *Client) Register(ctx context.Context, seen pool.Job, counts map[string]int) error {
	job, err := c.job(ctx)
	if err != nil {
		return err
	}

	if err := c.same(job, seen); err != nil {
		return err
	}

	_, _, err = c.api.Jobs().RegisterOpts(changed(c.spec, job, counts), &api.RegisterOptions{
		EnforceIndex: true,
		ModifyIndex:  seen.Index,
	}, c.write(ctx))

	var answer api.UnexpectedResponseError
	if errors.As(err, &answer) && strings.Contains(answer.Body(), "Enforcing job modify index") {
		return conflict(c.spec.JobID)
	}

	return c.failed(err, "register Nomad job %s", c.spec.JobID)
}

// Deregister stops the job; purge removes it too.
func (c *Client) Deregister(ctx context.Context, seen pool.Job, purge bool) error {
	job, err := c.job(ctx)
	if err == nil {
		err = c.same(job, seen)
	}

	if err != nil || job == nil {
		return err
	}

	_, _, err = c.api.Jobs().Deregister(c.spec.JobID, purge, c.write(ctx))

	return c.failed(err, "stop Nomad job %s", c.spec.JobID)
}

// same refuses a job that was changed since it was observed, or that belongs to another pool.
func (c *Client) same(job *api.Job, seen pool.Job) error {
	if (job != nil) != seen.Exists {
		return conflict(c.spec.JobID)
	}

	if job != nil && (*job.JobModifyIndex != seen.Index || job.Meta[metaOwner] != c.spec.Owner) {
		return conflict(c.spec.JobID)
	}

	return nil
}

func conflict(id string) error {
	return fault.New(fault.Conflict, "Nomad job %s was changed since it was read: the next check decides again", id)
}

func (c *Client) query(ctx context.Context) *api.QueryOptions {
	return (&api.QueryOptions{}).WithContext(ctx)
}

func (c *Client) write(ctx context.Context) *api.WriteOptions {
	return (&api.WriteOptions{}).WithContext(ctx)
}
