// Fails when a proto file is badly styled, breaks the committed baseline, or its generated code is out of date.
import { existsSync, globSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { messageOf } from "../../packages/contracts/src/errors.ts";
import { baselineOf, buf, generate, protoRoots, type ProtoRoot } from "./proto-roots.ts";

async function problemsOf(root: ProtoRoot): Promise<string[]> {
  const problems: string[] = [];
  const attempt = async (what: string, args: readonly string[]): Promise<void> => {
    await buf(args).catch((err: unknown) => problems.push(`${what}: ${messageOf(err)}`));
  };
  await attempt("lint", ["lint", root.proto]);
  if (existsSync(baselineOf(root))) {
    await attempt("breaking", ["breaking", root.proto, "--against", baselineOf(root)]);
  } else {
    problems.push(`no ${baselineOf(root)}; run node tools/gen/proto.ts --baseline`);
  }
  const fresh = mkdtempSync(join(tmpdir(), "gpve-proto-"));
  try {
    await generate(root, fresh);
    const wanted = globSync("**/*.ts", { cwd: fresh }).toSorted();
    const present = globSync("**/*.ts", { cwd: root.out }).toSorted();
    const same = (file: string): boolean =>
      present.includes(file) &&
      readFileSync(join(fresh, file), "utf8") === readFileSync(join(root.out, file), "utf8");
    const stale = [...wanted.filter((file) => !same(file)), ...present.filter((f) => !wanted.includes(f))];
    if (stale.length > 0) problems.push(`out of date: ${stale.join(", ")}; run npm run gen`);
  } finally {
    rmSync(fresh, { recursive: true, force: true });
  }
  return problems;
}

for (const root of protoRoots) {
  const problems = await problemsOf(root);
  for (const problem of problems) console.error(`gen: ${root.proto}: ${problem}`);
  if (problems.length > 0) process.exitCode = 1;
  else console.log(`gen: ${root.proto} is current, well styled and compatible`);
}
