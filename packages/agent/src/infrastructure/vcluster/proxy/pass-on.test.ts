import { expect, test } from "vitest";
import { isPoolName } from "@gpve/domain/access/ids.ts";
import { serverName } from "@gpve/domain/vcluster/cluster-front.ts";
import { passedOnName, passOnWords } from "./pass-on.ts";

test("a proxy takes the name of every tenant that there can be", () => {
  for (const tenant of ["team_a", "Team.A-1/dev_2/x", "_"]) {
    expect([tenant, isPoolName(tenant)]).toEqual([tenant, true]);
    const name = serverName("demo", tenant);
    expect(passedOnName(Buffer.from(passOnWords(name)))).toMatchObject({ serverName: name });
  }
});
