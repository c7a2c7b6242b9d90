// A process that runs operations on a journal on disk until it is killed. Driven by operations-crash.test.ts.
//
//   node operations-child.ts DIR COUNT     submits COUNT operations (again harmless), runs all, then ends
import { appendFileSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { upidNamer } from "@gpve/domain/task/operation-tasks.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { OperationEngine } from "@gpve/kit/operation/engine.ts";
import { TaskLogFiles } from "@gpve/kit/task-log/task-log-files.ts";
import { StoreJournal } from "@gpve/store/journal/store-journal.ts";
import { openSqliteStore } from "@gpve/store/sqlite/sqlite-store.ts";

const [directory = "", count = "0"] = process.argv.slice(2);
const effects = join(directory, "effects");
const known = new Set(existsSync(effects) ? readFileSync(effects, "utf8").split("\n") : []);

/** Records an effect unless it is there already: what makes a step idempotent. */
function once(line: string): void {
  if (known.has(line)) return;
  known.add(line);
  appendFileSync(effects, `${line}\n`);
}

const store = openSqliteStore({ path: join(directory, "journal.db") });
const logger = {
  warn: (fields: object, message: string) => console.error(message, fields),
  error: (fields: object, message: string) => console.error(message, fields),
};
const logs = new TaskLogFiles({ directory: join(directory, "tasks"), logger });
const engine = new OperationEngine({
  journal: new StoreJournal({ store, clock: systemClock, prefix: "/operations/", compactEvery: 100 }),
  owner: "child",
  clock: systemClock,
  logs,
  logger,
  nameOf: upidNamer("n1", () => 1),
  concurrency: 8,
});
for (const onCrash of ["undo", "resume"] as const)
  engine.register<{ n: number }, object>({
    type: `work-${onCrash}`,
    onCrash,
    steps: ["a", "b", "c"].map((name) => ({
      name,
      run: async (ctx) => {
        await systemClock.sleep(1 + (ctx.args.n % 5), ctx.signal);
        if (name === "c" && ctx.args.n % 10 === 7) throw new Error("made to fail");
        once(`+ ${ctx.args.n} ${name}`);
        ctx.log(`did ${name}`);
      },
      undo: (ctx) => {
        if (known.has(`+ ${ctx.args.n} ${name}`)) once(`- ${ctx.args.n} ${name}`);
      },
    })),
  });
await engine.start();
const numbers = Array.from({ length: Number(count) }, (_, n) => n);
const submitted = await Promise.all(
  numbers.map((n) =>
    engine.submit({
      type: n % 2 === 0 ? "work-undo" : "work-resume",
      resources: [`vm/${n % 20}`],
      args: { n },
      actor: "root@pam",
      subject: String(n),
      requestId: `work-${n}`,
    }),
  ),
);
writeFileSync(join(directory, "submitted"), "yes");
const ended = await Promise.all(submitted.map(({ upid }) => engine.wait(upid)));
const counts = engine.counts();
const lastLines = await Promise.all(
  ended.map(
    async ({ id }) => (await logs.read(id, 0, 0))?.rows.filter(({ t }) => t.startsWith("TASK ")).length,
  ),
);
await engine.stop();
await store.close();
writeFileSync(
  join(directory, "result.json"),
  JSON.stringify({
    counts,
    lastLines,
    operations: ended.map(({ id, state, args, steps }) => ({ id, state, args, steps })),
  }),
);
