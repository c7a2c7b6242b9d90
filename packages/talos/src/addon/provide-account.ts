// What an add-on works with on the platform: a role with just its privileges, a user, a token, and the token in a Secret
// of the cluster. The token's secret goes from one to the other and is kept nowhere else.
import { AppError, isAppError } from "@gpve/contracts/errors.ts";
import { stringify } from "yaml";
import type { Cluster } from "../cluster/cluster.ts";
import type { Driver } from "../driver/driver.ts";
import type { Kubernetes, KubernetesObject } from "../kubernetes/kubernetes.ts";
import type { AddonKind } from "./addon-kind.ts";
import { podEndpoint } from "./pod-endpoint.ts";

export async function provideAccount(
  cluster: Cluster,
  drivers: ReadonlyMap<string, Driver>,
  kubernetes: Kubernetes,
  { name, account }: AddonKind,
): Promise<void> {
  if (account === undefined) return;
  const { secret, privileges, paths } = account;
  const object: KubernetesObject = { apiVersion: "v1", kind: "Secret", metadata: { ...secret } };
  if ((await kubernetes.read(object)) !== undefined) return;
  if (cluster.addons.ccm.proxmox.credentials === "given") {
    throw new AppError(
      "config.invalid",
      `the Secret ${secret.namespace}/${secret.name} of ${name} is not there`,
      {
        data: { finding: "addon-account" },
      },
    );
  }
  const clusters: object[] = [];
  for (const provider of cluster.providers) {
    const driver = drivers.get(provider.name);
    if (driver === undefined) throw new AppError("internal.error", `${provider.name} is not open`);
    const { url, isInsecure } = (await podEndpoint(provider, driver)) ?? {
      url: provider.endpoint ?? `https://${provider.nodes[0]}:8006`,
      isInsecure: true,
    };
    const { id, secret: value } = await made(driver, name, {
      user: `talos-${cluster.metadata.name}@pve`,
      token: name,
      role: `talos-${name}`,
      privileges,
      paths: paths(provider.pool),
    });
    clusters.push({
      url: `${url.replace(/\/+$/, "")}/api2/json`,
      insecure: isInsecure,
      token_id: id,
      token_secret: value,
      region: provider.name,
    });
  }
  await kubernetes.apply({ ...object, stringData: { "config.yaml": stringify({ clusters }) } });
}

async function made(driver: Driver, name: string, account: Parameters<Driver["makeAccount"]>[0]) {
  try {
    return await driver.makeAccount(account);
  } catch (err) {
    if (!isAppError(err) || err.kind !== "forbidden") throw err;
    throw new AppError(
      "access.denied",
      `the account of ${name} cannot be made on ${driver.name}: ${err.message}`,
      {
        cause: err,
        data: { finding: "addon-account" },
      },
    );
  }
}
