package e2b

import (
	"context"
	"io"
	"iter"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"aether/engine"
	"aether/rest"
	"aether/sandbox"
)

// otherOperations are those that are about no sandbox.
func (d *Dialect) otherOperations() []rest.Operation {
	return []rest.Operation{
		{Pattern: "POST /volumes", Name: "e2b.volume.create", Do: d.createVolume},
		{Pattern: "GET /volumes", Name: "e2b.volume.list", Do: d.listVolumes},
		{Pattern: "GET /volumes/{volume}", Name: "e2b.volume.get", Do: d.getVolume},
		{Pattern: "DELETE /volumes/{volume}", Name: "e2b.volume.delete", Do: d.deleteVolume},
	}
}

// deleteTemplate deletes a snapshot or a template: clients know one path for both.
func (d *Dialect) deleteTemplate(v *rest.Visit) error {
	id := v.PathValue("template")
	err := d.engine.DeleteSnapshot(v.Context(), v.Who, id)
	if sandbox.ClassOf(err) == sandbox.NotFound {
		err = d.engine.RemoveTemplate(v.Context(), v.Who, id)
	}
	if err != nil {
		return err
	}
	d.books.forget(id)
	return v.Answer(http.StatusNoContent, nil)
}

// templateOperations are those about templates and their builds.
func (d *Dialect) templateOperations() []rest.Operation {
	return []rest.Operation{
		{Pattern: "POST /v3/templates", Name: "e2b.template.create", Do: d.announce},
		{Pattern: "GET /templates", Name: "e2b.template.list", Do: d.listTemplates},
		{Pattern: "GET /templates/{template}", Name: "e2b.template.get", Do: d.getTemplate},
		{Pattern: "DELETE /templates/{template}", Name: "e2b.template.delete", Do: d.deleteTemplate},
		{Pattern: "GET /templates/{template}/{of}", Name: "e2b.template.of", Do: d.templateOf},
		{Pattern: "GET /templates/{template}/files/{hash}", Name: "e2b.template.files", Do: d.uploadLink},
		{Pattern: "PUT /templates/{template}/files/{hash}", Name: "e2b.template.upload", Do: d.upload, Who: d.uploader, Lasts: true},
		{Pattern: "POST /v2/templates/{template}/builds/{build}", Name: "e2b.template.build", Do: d.startBuild},
		{Pattern: "GET /templates/{template}/builds/{build}/status", Name: "e2b.template.status", Do: d.buildInfo},
		{Pattern: "GET /templates/{template}/builds/{build}/logs", Name: "e2b.template.logs", Do: d.buildLogs},
		{Pattern: "POST /templates/tags", Name: "e2b.template.tag", Do: d.tag},
		{Pattern: "DELETE /templates/tags", Name: "e2b.template.untag", Do: d.untag},
	}
}

// template finds a template: by a name alone, the version that clients mean by it. Errors:
// NotFound.
func (d *Dialect) template(ctx context.Context, who engine.Caller, name string) (engine.TemplateInfo, error) {
	if !strings.ContainsAny(name, ":@") {
		if info, err := d.engine.GetTemplate(ctx, who, name+":"+defaultTag); err == nil {
			return info, nil
		}
	}
	info, err := d.engine.GetTemplate(ctx, who, name)
	if err != nil || info.Prepared.IsZero() && info.State == engine.TemplatePreparing {
		return info, &sandbox.Error{Class: sandbox.NotFound, Field: "template", Reason: "there is no template of this name"}
	}
	return info, nil
}

// versions are those of a template, or of all.
func (d *Dialect) versions(ctx context.Context, who engine.Caller, name string) iter.Seq2[engine.TemplateInfo, error] {
	return func(yield func(engine.TemplateInfo, error) bool) {
		q := engine.TemplateQuery{Tenant: who.Tenant, Name: name}
		for {
			page, err := d.engine.ListTemplates(ctx, who, q)
			if err != nil {
				yield(engine.TemplateInfo{}, err)
				return
			}
			for _, info := range page.Templates {
				if info.State != engine.TemplatePreparing && !yield(info, nil) {
					return
				}
			}
			if q.After = page.Next; q.After == "" {
				return
			}
		}
	}
}

// buildOf is the id of the build that has made a version, or of one that /v1 has made.
func buildOf(info engine.TemplateInfo) string {
	if id := info.Recipe.Spec.Metadata[markBuild]; id != "" {
		return id
	}
	return info.ID
}

// templateBody is a template, as its newest version is.
type templateBody struct {
	TemplateID  string      `json:"templateID"`
	BuildID     string      `json:"buildID"`
	CPUCount    int         `json:"cpuCount"`
	MemoryMB    int64       `json:"memoryMB"`
	DiskSizeMB  int64       `json:"diskSizeMB"`
	Public      bool        `json:"public"`
	Aliases     []string    `json:"aliases"`
	Names       []string    `json:"names"`
	CreatedAt   time.Time   `json:"createdAt"`
	UpdatedAt   time.Time   `json:"updatedAt"`
	CreatedBy   *struct{}   `json:"createdBy"`
	LastSpawned *time.Time  `json:"lastSpawnedAt"`
	SpawnCount  int         `json:"spawnCount"`
	BuildCount  int         `json:"buildCount"`
	EnvdVersion string      `json:"envdVersion"`
	BuildStatus buildStatus `json:"buildStatus"`
}

func templateOfVersion(info engine.TemplateInfo) templateBody {
	body := templateBody{TemplateID: info.Name, BuildID: buildOf(info), Aliases: []string{info.Name}, Names: []string{info.Name}, CreatedAt: info.Created,
		UpdatedAt: info.Created, SpawnCount: info.Forks, BuildCount: info.Version, EnvdVersion: envdVersion, BuildStatus: ready}
	body.CPUCount, body.MemoryMB, body.DiskSizeMB = sizes(info.Recipe.Spec.Limits)
	return body
}

func (d *Dialect) listTemplates(v *rest.Visit) error {
	list := []templateBody{}
	for info, err := range d.versions(v.Context(), v.Who, "") {
		if err != nil {
			return err
		}
		if info.Latest {
			list = append(list, templateOfVersion(info))
		}
	}
	return v.Answer(http.StatusOK, list)
}

func (d *Dialect) getTemplate(v *rest.Visit) error {
	info, err := d.template(v.Context(), v.Who, v.PathValue("template"))
	if err != nil {
		return err
	}
	type buildBody struct {
		BuildID    string      `json:"buildID"`
		Status     buildStatus `json:"status"`
		CreatedAt  time.Time   `json:"createdAt"`
		UpdatedAt  time.Time   `json:"updatedAt"`
		FinishedAt time.Time   `json:"finishedAt"`
		CPUCount   int         `json:"cpuCount"`
		MemoryMB   int64       `json:"memoryMB"`
	}
	body := struct {
		templateBody
		Builds []buildBody `json:"builds"`
	}{templateBody: templateOfVersion(info)}
	for other, err := range d.versions(v.Context(), v.Who, info.Name) {
		if err != nil {
			return err
		}
		one := templateOfVersion(other)
		body.Builds = append(body.Builds, buildBody{one.BuildID, ready, one.CreatedAt, one.UpdatedAt, other.Prepared, one.CPUCount, one.MemoryMB})
	}
	return v.Answer(http.StatusOK, body)
}

// templateOf is for the tags of a template and for aliases, whose paths could be each
// other's.
func (d *Dialect) templateOf(v *rest.Visit) error {
	switch name, of := v.PathValue("template"), v.PathValue("of"); {
	case name == "aliases":
		return d.alias(v, of)
	case of == "tags":
		return d.tags(v, name)
	}
	return &sandbox.Error{Class: sandbox.NotFound, Field: "path", Reason: "there is no such path"}
}

// alias says whether there is a template of a name.
func (d *Dialect) alias(v *rest.Visit, name string) error {
	if !isBuiltin(name) {
		info, err := d.template(v.Context(), v.Who, name)
		if err != nil {
			return err
		}
		name = info.Name
	}
	return v.Answer(http.StatusOK, map[string]any{"templateID": name, "public": false})
}

// uploadLink says whether the files of a step are there, and where they are sent to if not.
// Who sends them there has no key.
func (d *Dialect) uploadLink(v *rest.Visit) error {
	hash := v.PathValue("hash")
	there, err := d.engine.HasArchive(v.Context(), v.Who, hash)
	if err != nil {
		return err
	}
	to := url.URL{Scheme: d.schemeOf(v.Request), Host: v.Host, Path: v.URL.Path}
	to.RawQuery = url.Values{"tenant": {v.Who.Tenant}, "token": {d.tokens.upload(v.Who.Tenant, hash)}}.Encode()
	return v.Answer(http.StatusCreated, map[string]any{"present": there, "url": to.String()})
}

// schemeOf is how a client reaches the daemon by the host that it asked for. Clients of a
// domain always do so over TLS, which a proxy may have ended before the request came here;
// what headers say of that anybody can write.
func (d *Dialect) schemeOf(r *http.Request) string {
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	_, domain, _ := strings.Cut(host, ".")
	if r.TLS != nil || d.domain != "" && strings.EqualFold(domain, d.domain) {
		return "https"
	}
	return "http"
}

// uploader is who has a link for the files of a step.
func (d *Dialect) uploader(r *http.Request) (engine.Caller, error) {
	query := r.URL.Query()
	tenant := query.Get("tenant")
	if !same(query.Get("token"), d.tokens.upload(tenant, r.PathValue("hash"))) {
		return engine.Caller{}, &sandbox.Error{Class: sandbox.Denied, Reason: "the link is not one that was given"}
	}
	return engine.Caller{Tenant: tenant, Name: "upload:" + tenant}, nil
}

func (d *Dialect) upload(v *rest.Visit) error {
	leave, err := v.Creation()
	if err != nil {
		return err
	}
	defer leave()
	body := patientBody{v.Request.Body, http.NewResponseController(v.Writer), v.Patience()}
	if err := d.engine.KeepArchive(v.Context(), v.Who, v.PathValue("hash"), body); err != nil {
		return err
	}
	return v.Answer(http.StatusOK, nil)
}

// patientBody is a body of which each part may take so long.
type patientBody struct {
	io.Reader
	control *http.ResponseController
	stall   time.Duration
}

func (p patientBody) Read(b []byte) (int, error) {
	if err := p.control.SetReadDeadline(time.Now().Add(p.stall)); err != nil {
		return 0, err
	}
	return p.Reader.Read(b)
}

func (d *Dialect) tags(v *rest.Visit, name string) error {
	info, err := d.template(v.Context(), v.Who, name)
	if err != nil {
		return err
	}
	type tagBody struct {
		Tag       string    `json:"tag"`
		BuildID   string    `json:"buildID"`
		CreatedAt time.Time `json:"createdAt"`
	}
	list := []tagBody{}
	for version, err := range d.versions(v.Context(), v.Who, info.Name) {
		if err != nil {
			return err
		}
		for _, tag := range version.Tags {
			list = append(list, tagBody{tag, buildOf(version), version.Created})
		}
	}
	return v.Answer(http.StatusOK, list)
}

// tag has a version be meant by more tags, which others lose.
func (d *Dialect) tag(v *rest.Visit) error {
	var req struct {
		Target string   `json:"target"`
		Tags   []string `json:"tags"`
	}
	if err := v.Body(&req); err != nil {
		return err
	}
	info, err := d.template(v.Context(), v.Who, req.Target)
	if err != nil {
		return err
	}
	now := slices.Concat(info.Tags, req.Tags)
	if _, err := d.engine.ChangeTemplate(v.Context(), v.Who, info.ID, engine.TemplateChange{Tags: now}); err != nil {
		return err
	}
	return v.Answer(http.StatusCreated, map[string]any{"buildID": buildOf(info), "tags": req.Tags})
}

// untag removes tags, whichever versions have them. What then has none, and is not the
// newest, is gone.
func (d *Dialect) untag(v *rest.Visit) error {
	var req struct {
		Name string   `json:"name"`
		Tags []string `json:"tags"`
	}
	if err := v.Body(&req); err != nil {
		return err
	}
	name, _, _ := strings.Cut(req.Name, ":")
	for _, tag := range req.Tags {
		info, err := d.engine.GetTemplate(v.Context(), v.Who, name+":"+tag)
		if err != nil {
			return err
		}
		left := slices.DeleteFunc(slices.Clone(info.Tags), func(other string) bool { return other == tag })
		if _, err := d.engine.ChangeTemplate(v.Context(), v.Who, info.ID, engine.TemplateChange{Tags: append([]string{}, left...)}); err != nil {
			return err
		}
	}
	return v.Answer(http.StatusNoContent, nil)
}
