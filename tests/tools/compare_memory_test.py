#!/usr/bin/env python3
"""`trainyard compare` holds a fixed number of bytes an instruction, not the text of a trace."""

import json
import resource

from cli import CliTest, main

INSTRUCTIONS = 400_000
BYTES_EACH = 100  # of both traces, as the README of tools/trainyard says
BASE = 32 << 20


class Memory(CliTest):
    def test_big_traces_take_the_memory_that_is_stated(self):
        path = self.folder / "big.json"
        with path.open("w") as file:
            file.write('{"otherData":{"schema":"trainyard-trace-1","program_hash":"aa"},'
                       '"traceEvents":[')
            for i in range(INSTRUCTIONS):
                file.write(f'{"," if i else ""}\n{{"ph":"X","pid":{i % 64},"tid":0,"ts":{i},'
                           f'"dur":0.5,"name":"gemm_forward","args":{{"instruction":{i // 64},'
                           '"shape":[4096,4096,4096],"flops":137438953472,"pass":"forward",'
                           '"micro_batch":3,"chunk":0}}')
            file.write("]}")
        out = json.loads(self.succeed("compare", path, path, "--json", "-"))
        self.assertEqual(out["instructions"]["compared"], INSTRUCTIONS)
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
        self.assertLess(peak, BASE + 2 * INSTRUCTIONS * BYTES_EACH)
        # Which is much less than the texts have.
        self.assertLess(peak, path.stat().st_size)


if __name__ == "__main__":
    main()
