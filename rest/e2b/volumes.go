package e2b

import (
	"net/http"

	"aether/engine"
	"aether/rest"
)

// volumeSize is the bound of a volume: clients state none.
const volumeSize = 1 << 30

// volumeBody is a volume, whose id is its name. Its token would open the API of its
// contents, which is not there.
type volumeBody struct {
	VolumeID string  `json:"volumeID"`
	Name     string  `json:"name"`
	Token    *string `json:"token,omitempty"`
}

func (d *Dialect) createVolume(v *rest.Visit) error {
	var req struct {
		Name string `json:"name"`
	}
	if err := v.Body(&req); err != nil {
		return err
	}
	leave, err := v.Creation()
	if err != nil {
		return err
	}
	defer leave()
	made, err := d.engine.CreateVolume(v.Context(), v.Who, engine.VolumeRequest{Name: req.Name, Bytes: volumeSize})
	if err != nil {
		return err
	}
	return v.Answer(http.StatusCreated, volumeBody{made.Name, made.Name, new(string)})
}

func (d *Dialect) listVolumes(v *rest.Visit) error {
	list := []volumeBody{}
	q := engine.VolumeQuery{Tenant: v.Who.Tenant}
	for {
		page, err := d.engine.ListVolumes(v.Context(), v.Who, q)
		if err != nil {
			return err
		}
		for _, one := range page.Volumes {
			list = append(list, volumeBody{VolumeID: one.Name, Name: one.Name})
		}
		if q.After = page.Next; q.After == "" {
			return v.Answer(http.StatusOK, list)
		}
	}
}

func (d *Dialect) getVolume(v *rest.Visit) error {
	one, err := d.engine.GetVolume(v.Context(), v.Who, "", v.PathValue("volume"))
	if err != nil {
		return err
	}
	return v.Answer(http.StatusOK, volumeBody{one.Name, one.Name, new(string)})
}

func (d *Dialect) deleteVolume(v *rest.Visit) error {
	if err := d.engine.DeleteVolume(v.Context(), v.Who, "", v.PathValue("volume")); err != nil {
		return err
	}
	return v.Answer(http.StatusNoContent, nil)
}
