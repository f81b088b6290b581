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
