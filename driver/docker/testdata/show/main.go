// Show prints a file: a program for images that have nothing else.
package main

import (
	"fmt"
	"os"
)

func main() {
	text, err := os.ReadFile(os.Args[1])
	if err != nil {
		panic(err)
	}
	fmt.Print(string(text))
}
