package pid1

import (
	"io"
	"net/http"
	"os"
	"strconv"
	"time"

	"aether/guest"
	"aether/internal/host/guestinit"
)

// handler serves the guest service, its files as a whole, and in a machine what only its
// init can do.
func (c Config) handler(service *guest.Service, m *made) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", service.Handler())
	mux.HandleFunc("GET "+ownPath, func(w http.ResponseWriter, r *http.Request) { sendOwn(service, w, r) })
	mux.HandleFunc("POST "+ownPath, func(w http.ResponseWriter, r *http.Request) {
		control(maxOwn, func(body []byte) error { return service.WriteFile(self(), r.URL.Query().Get("path"), body) })(w, r)
	})
	if m.upper != nil || m.container {
		mux.HandleFunc("GET "+filesPath, m.sendFiles)
		mux.HandleFunc("POST "+filesPath, m.takeFiles)
	}
	if c.Machine == nil {
		return mux
	}
	mux.HandleFunc("POST "+clockPath, control(maxControl, setClock))
	mux.HandleFunc("POST "+entropyPath, control(maxControl, guestinit.AddEntropy))
	mux.HandleFunc("POST "+holdPath, m.hold)
	mux.HandleFunc("POST "+letGoPath, control(maxControl, m.letGo))
	mux.HandleFunc("POST "+renewPath, control(maxRenewal, renew))
	mux.HandleFunc("POST "+goOnPath, control(maxRenewal, m.goOn))
	mux.HandleFunc("POST "+powerOffPath, control(maxControl, func([]byte) error { return guestinit.PowerOff() }))
	mux.HandleFunc("POST "+networkPath, m.network.join)
	mux.HandleFunc("POST "+leavePath, control(maxControl, m.network.leave))
	return mux
}

// self is the user of this process, by number.
func self() string { return strconv.Itoa(os.Getuid()) }

func sendOwn(service *guest.Service, w http.ResponseWriter, r *http.Request) {
	text, err := service.ReadFile(self(), r.URL.Query().Get("path"), maxOwn)
	if err != nil {
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		return
	}
	w.Header().Set("Trailer", guest.WholeTrailer)
	if _, err := w.Write(text); err == nil {
		w.Header().Set(guest.WholeTrailer, guest.Whole)
	}
}

func setClock(text []byte) error {
	now, err := time.Parse(time.RFC3339Nano, string(text))
	if err != nil {
		return err
	}
	return guestinit.SetClock(now)
}

// control makes a route of something that is done with a bounded body.
func control(bound int64, do func(body []byte) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bound))
		if err == nil {
			err = do(body)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnprocessableEntity)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}
}
