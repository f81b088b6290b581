package e2b

import (
	"context"
	"net/http"
	"strings"
	"time"

	"aether/engine"
	"aether/rest"
	"aether/sandbox"
)

// secretBody is what is told of a secret, whose id is its name. There is one version of it
// at a time.
type secretBody struct {
	SecretID       string            `json:"secretID"`
	Name           string            `json:"name"`
	CurrentVersion int64             `json:"currentVersion"`
	Metadata       map[string]string `json:"metadata"`
	CreatedAt      time.Time         `json:"createdAt"`
	UpdatedAt      time.Time         `json:"updatedAt"`
}

// told is a secret as clients know it. A version is when it was set, so that it counts up.
func told(s engine.Secret) secretBody {
	version := int64(1)
	if s.Updated.After(s.Created) {
		version = s.Updated.UnixMilli()
	}
	metadata := s.Metadata
	if metadata == nil {
		metadata = map[string]string{} // which clients are promised to find
	}
	return secretBody{s.Name, s.Name, version, metadata, s.Created, s.Updated}
}

func (d *Dialect) secretOperations() []rest.Operation {
	return []rest.Operation{
		{Pattern: "GET /secrets", Name: "e2b.secret.list", Do: d.listSecrets},
		{Pattern: "POST /secrets", Name: "e2b.secret.create", Do: d.createSecret},
		{Pattern: "GET /secrets/{secret}", Name: "e2b.secret.get", Do: d.getSecret},
		{Pattern: "POST /secrets/{secret}", Name: "e2b.secret.update", Do: d.updateSecret},
		{Pattern: "DELETE /secrets/{secret}", Name: "e2b.secret.delete", Do: d.deleteSecret},
	}
}

// newSecret is what a secret is to be.
type newSecret struct {
	Name     string            `json:"name"`
	Value    string            `json:"value"`
	Metadata map[string]string `json:"metadata"`
}

// secretRequest reads a request that has a value, of which no error tells.
func secretRequest(v *rest.Visit) (req newSecret, value engine.SecretValue, err error) {
	if err := v.Body(&req); err != nil {
		return req, value, sandbox.Invalidf("body", "it is not a secret")
	}
	value, err = engine.NewSecretValue([]byte(req.Value))
	return req, value, err
}

func (d *Dialect) createSecret(v *rest.Visit) error {
	req, value, err := secretRequest(v)
	if err != nil {
		return err
	}
	defer value.Clear()
	if _, err := d.secret(v.Context(), v.Who, req.Name); err == nil {
		return &sandbox.Error{Class: sandbox.Conflict, Field: "name", Reason: "there is a secret of this name"}
	}
	return d.setSecret(v, engine.SecretRequest{Name: req.Name, Value: value, Metadata: req.Metadata}, http.StatusCreated)
}

func (d *Dialect) updateSecret(v *rest.Visit) error {
	req, value, err := secretRequest(v)
	if err != nil {
		return err
	}
	defer value.Clear()
	known, err := d.secret(v.Context(), v.Who, v.PathValue("secret"))
	if err != nil {
		return err
	}
	return d.setSecret(v, engine.SecretRequest{Name: known.Name, Value: value, Metadata: req.Metadata}, http.StatusOK)
}

func (d *Dialect) setSecret(v *rest.Visit, req engine.SecretRequest, status int) error {
	leave, err := v.Creation()
	if err != nil {
		return err
	}
	defer leave()
	made, err := d.engine.SetSecret(v.Context(), v.Who, req)
	if err != nil {
		return err
	}
	return v.Answer(status, told(made))
}

// secret finds a secret of the caller's tenant. Errors: NotFound.
func (d *Dialect) secret(ctx context.Context, who engine.Caller, name string) (engine.Secret, error) {
	q := engine.SecretQuery{Tenant: who.Tenant}
	for {
		page, err := d.engine.Secrets(ctx, who, q)
		if err != nil {
			return engine.Secret{}, err
		}
		for _, s := range page.Secrets {
			if s.Name == name {
				return s, nil
			}
		}
		if q.After = page.Next; q.After == "" {
			return engine.Secret{}, &sandbox.Error{Class: sandbox.NotFound, Field: "secretID", Reason: "there is no such secret"}
		}
	}
}

func (d *Dialect) getSecret(v *rest.Visit) error {
	s, err := d.secret(v.Context(), v.Who, v.PathValue("secret"))
	if err != nil {
		return err
	}
	return v.Answer(http.StatusOK, told(s))
}

func (d *Dialect) deleteSecret(v *rest.Visit) error {
	if err := d.engine.RemoveSecret(v.Context(), v.Who, "", v.PathValue("secret")); err != nil {
		return err
	}
	return v.Answer(http.StatusNoContent, nil)
}

func (d *Dialect) listSecrets(v *rest.Visit) error {
	limit, err := whole(v.URL.Query().Get("limit"), 0)
	if err != nil {
		return err
	}
	q := engine.SecretQuery{Tenant: v.Who.Tenant, Limit: limit}
	if after := v.URL.Query().Get("nextToken"); after != "" {
		q.After = v.Who.Tenant + "/" + after
	}
	page, err := d.engine.Secrets(v.Context(), v.Who, q)
	if err != nil {
		return err
	}
	list := []secretBody{}
	for _, s := range page.Secrets {
		list = append(list, told(s))
	}
	if _, next, more := strings.Cut(page.Next, "/"); more {
		v.Writer.Header().Set(nextHeader, next)
	}
	return v.Answer(http.StatusOK, list)
}
