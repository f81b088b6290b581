package e2b

import (
	"net/http"

	"aether/rest"
	"aether/sandbox"
)

// otherOperations are those that are about no sandbox.
func (d *Dialect) otherOperations() []rest.Operation {
	return []rest.Operation{
		{Pattern: "DELETE /templates/{template}", Name: "e2b.template.delete", Do: d.deleteTemplate},
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
