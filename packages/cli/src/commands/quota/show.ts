import type { V1Object } from "@gpve/client/object.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { CommandSpec } from "../../command.ts";

type Amounts = Readonly<Record<string, string | number | Readonly<Record<string, string>>>>;
type Bounds = Readonly<Record<string, Amounts | undefined>>;

export const quotaShow: CommandSpec = {
  name: "quota show",
  summary: "show what a tenant uses and may use",
  details: "Everyone sees the quotas of the tenants that are theirs to see (Pool.Audit).",
  arguments: [{ name: "[tenant]", about: "only of this tenant (pool)" }],
  examples: ["quota show", "quota show shop"],
  doing: (input) => `show the quotas of ${input.optionalArg("tenant") ?? "all tenants"}`,
  run: async (cli, input) => {
    const { v1 } = await cli.client();
    const tenant = input.optionalArg("tenant");
    const quotas: V1Object[] = [];
    for await (const quota of v1.listAll("resourcequotas"))
      if (tenant === undefined || quota.metadata.namespace === tenant) quotas.push(quota);
    if (tenant !== undefined && quotas.length === 0)
      throw new AppError(
        "object.not_found",
        `tenant '${tenant}' has no quota: it is not bounded, or not yours to see`,
      );
    if (!cli.out.forPeople) {
      cli.out.data({ apiVersion: "gpve.io/v1", kind: "ResourceQuotaList", items: quotas });
      return;
    }
    const columns = [
      { header: "TENANT", field: "tenant" },
      { header: "QUOTA", field: "quota" },
      { header: "RESOURCE", field: "resource" },
      { header: "USED", field: "used" },
      { header: "HARD", field: "hard" },
    ] as const;
    cli.out.rows(quotas.flatMap(rowsOf), columns, "No quotas.");
  },
};

function rowsOf({ metadata, status }: V1Object): readonly object[] {
  const { used = {}, hard = {} } = (status ?? {}) as { readonly used?: Bounds; readonly hard?: Bounds };
  return Object.entries(hard).flatMap(([bound, amounts]) => {
    const taken = flat(used[bound] ?? {});
    return Object.entries(flat(amounts ?? {})).map(([resource, most]) => ({
      tenant: metadata.namespace,
      quota: metadata.name,
      resource: `${bound}.${resource}`,
      used: taken[resource] ?? 0,
      hard: most,
    }));
  });
}

function flat(amounts: Amounts): Readonly<Record<string, string | number>> {
  const rows = Object.entries(amounts).flatMap(([name, value]) =>
    typeof value === "object"
      ? Object.entries(value).map(([storage, size]) => [`${name}.${storage}`, size] as const)
      : [[name, value] as const],
  );
  return Object.fromEntries(rows);
}
