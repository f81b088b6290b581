package fork

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"aether/lab/conversation"
)

// patience bounds one turn, with its wait for a reply.
const patience = 30 * time.Second

// ask has a program answer.
func ask(ctx context.Context, c *conversation.Conversation) error {
	return c.Await(ctx, func(from *bufio.Reader) error { return exchange(c.Stdin(), from) })
}

// exchange writes a line and reads the answer, which may come after the line that
// says that the program is primed.
func exchange(to io.Writer, from *bufio.Reader) error {
	if _, err := io.WriteString(to, "x\n"); err != nil {
		return err
	}
	line, err := from.ReadString('\n')
	if err == nil && line == primed+"\n" {
		line, err = from.ReadString('\n')
	}
	if err == nil && !strings.HasSuffix(line, " x\n") {
		err = fmt.Errorf("the reply is %q", line)
	}
	return err
}

func readPrimed(from *bufio.Reader) error {
	line, err := from.ReadString('\n')
	if err == nil && line != primed+"\n" {
		err = fmt.Errorf("the program says %q", line)
	}
	return err
}
