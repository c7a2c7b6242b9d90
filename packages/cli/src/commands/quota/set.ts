import { AppError, isAppError } from "@gpve/contracts/errors.ts";
import type { V1Object } from "@gpve/client/object.ts";
import type { CommandSpec } from "../../command.ts";

const PARTS = new Set(["limits", "requests", "overcommit"]);
const SIZES = new Set(["memory", "storage", "storages"]);

export const quotaSet: CommandSpec = {
  name: "quota set",
  summary: "bound what a tenant may take",
  details:
    "Sets the quota that has the tenant's name. `cpu=8` means limits.cpu=8; what is not named stays, `cpu=` takes a bound away.",
  arguments: [
    { name: "<tenant>", about: "the tenant (pool)" },
    {
      name: "<bounds...>",
      about: "cpu=8, memory=16Gi, storages.local=100Gi, requests.cpu=4, overcommit.cpu=1.5",
    },
  ],
  examples: ["quota set shop cpu=8 memory=16Gi vmCount=10", "quota set shop requests.memory=8Gi memory="],
  doing: (input) => `set the quota of ${input.arg("tenant")}`,
  run: async (cli, input) => {
    const tenant = input.arg("tenant");
    const { v1 } = await cli.client();
    const spec: Record<string, Record<string, unknown>> = {};
    for (const bound of input.args("bounds")) addBound(spec, bound);
    let known: V1Object | undefined;
    try {
      known = await v1.get("resourcequotas", tenant);
    } catch (err) {
      if (!isAppError(err, "object.not_found")) throw err;
    }
    const quota =
      known === undefined
        ? await v1.create("resourcequotas", {
            apiVersion: "gpve.io/v1",
            kind: "ResourceQuota",
            metadata: { name: tenant, namespace: tenant },
            spec,
          })
        : await v1.patch("resourcequotas", tenant, { spec });
    cli.out.done(`Set the quota of tenant ${tenant}.`);
    const { exceeded = [] } = (quota.status ?? {}) as { readonly exceeded?: readonly string[] };
    if (exceeded.length > 0)
      cli.out.note(
        `It uses more than that already: ${exceeded.join(", ")}. What is there stays, what makes it worse is refused.`,
      );
  },
};

/** `requests.cpu=4` into {requests: {cpu: 4}}; null takes it away. */
function addBound(spec: Record<string, Record<string, unknown>>, text: string): void {
  const [, path, value] = /^([A-Za-z.0-9_-]+)=(.*)$/.exec(text) ?? [];
  if (path === undefined || value === undefined)
    throw new AppError(
      "request.invalid",
      `'${text}' is no bound: write NAME=VALUE, such as cpu=8 or memory=16Gi`,
    );
  const parts = path.split(".");
  const [part = "limits", name = "", ...rest] = PARTS.has(parts[0] ?? "") ? parts : ["limits", ...parts];
  const read = value === "" ? null : SIZES.has(name) || Number.isNaN(Number(value)) ? value : Number(value);
  const bounds = (spec[part] ??= {});
  if (rest.length === 0) bounds[name] = read;
  else bounds[name] = { ...(bounds[name] as object | undefined), [rest.join(".")]: read };
}
