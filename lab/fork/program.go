package fork

import "fmt"

// primed is the line with which a program says that it is ready.
const primed = "primed"

// modules are twenty of the standard library, as agents' code uses them.
const modules = `import argparse, asyncio, base64, collections, csv, datetime, decimal, email.message, fractions, hashlib
import http.client, inspect, json, logging, pickle, random, statistics, subprocess, tempfile, urllib.request
`

// answering answers every line; the data is used, so that it has to be there.
const answering = `
import sys
print("primed", flush=True)
for line in sys.stdin:
    print(len(data), line.strip(), flush=True)
`

func pythonWithModules() string { return modules + "data = ()\n" + answering }

// pythonWithData holds so many MiB in objects of a page each.
func pythonWithData(mib int) string {
	return fmt.Sprintf("data = [bytes([i %% 251]) * 4000 for i in range(%d)]\n", mib<<20/4032) + answering
}

const nodeProgram = `
const rl = require('readline').createInterface({input: process.stdin});
console.log('primed');
rl.on('line', (line) => { console.log('0 ' + line.trim()); });
`

// waiting is the word with which a child says that it waits.
const waiting = "waiting"

// waitingProgram forks itself for every two bytes; the child waits for a line,
// answers that and ends.
const waitingProgram = modules + `
import os, sys
data = ()
while os.read(0, 2):
    pid = os.fork()
    if pid == 0:
        print("waiting", flush=True)
        print(len(data), sys.stdin.readline().strip(), flush=True)
        os._exit(0)
    os.waitpid(pid, 0)
`

// zygote forks itself for every line; the child answers and ends.
const zygoteProgram = modules + `
import os, sys
print("primed", flush=True)
while sys.stdin.readline():
    pid = os.fork()
    if pid == 0:
        os.write(1, b"0 x\n")
        os._exit(0)
    os.waitpid(pid, 0)
`
