package main

import (
	"bufio"
	"bytes"
	"os"
	"strconv"
	"strings"
)

// freeMemory is how many bytes this process can still take: what the kernel calls available, and no more than the control
// group leaves. Where the kernel does not say, it is a guess and known is false.
func freeMemory() (free int64, known bool) {
	free = fallbackMemory
	if data, err := os.ReadFile("/proc/meminfo"); err == nil {
		if n, ok := memAvailable(data); ok {
			free, known = n, true
		}
	}
	limit, ok1 := readNumber("/sys/fs/cgroup/memory.max")
	used, ok2 := readNumber("/sys/fs/cgroup/memory.current")
	if ok1 && ok2 {
		free, known = min(free, max(0, limit-used)), true
	}
	return free, known
}

// memAvailable finds the line "MemAvailable:   123 kB" (proc(5)).
func memAvailable(meminfo []byte) (int64, bool) {
	for s := bufio.NewScanner(bytes.NewReader(meminfo)); s.Scan(); {
		fields := strings.Fields(s.Text())
		if len(fields) == 3 && fields[0] == "MemAvailable:" && fields[2] == "kB" {
			n, err := strconv.ParseInt(fields[1], 10, 64)
			return n << 10, err == nil
		}
	}
	return 0, false
}

func readNumber(path string) (int64, bool) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64) // "max" is no number: no limit
	return n, err == nil
}
