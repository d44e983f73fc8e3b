// What `echo serve` is in Go: a goroutine for each connection, for `make bench` to compare with.
package main

import (
	"fmt"
	"io"
	"net"
	"os"
)

const size = 64

func serve(c net.Conn) {
	var buf [size]byte
	for {
		if _, err := io.ReadFull(c, buf[:]); err != nil {
			break
		}
		if _, err := c.Write(buf[:]); err != nil {
			break
		}
	}
	c.Close()
}

func main() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(l.Addr().(*net.TCPAddr).Port)
	for {
		c, err := l.Accept()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		go serve(c)
	}
}
