package main

import (
	"crypto/tls"
	"fmt"

	"golang.org/x/net/websocket"
)

// webSocket speaks with args[0], a URL, several times by one connection.
func webSocket(args []string) (string, error) {
	config, err := websocket.NewConfig(args[0], "http://here.example/")
	if err != nil {
		return "", err
	}
	config.TlsConfig = &tls.Config{InsecureSkipVerify: true}
	conn, err := websocket.DialConfig(config)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	var heard string
	for i := range 10 {
		text := fmt.Sprintf("message %d", i)
		if err := websocket.Message.Send(conn, text); err != nil {
			return "", err
		}
		if err := websocket.Message.Receive(conn, &heard); err != nil || heard != text {
			return "", fmt.Errorf("%q: %w", heard, err)
		}
	}
	return heard, nil
}
