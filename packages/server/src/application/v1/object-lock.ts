// What changes one object takes turns: the names of operations' resources.
import { findKind } from "@gpve/contracts/v1/kinds.ts";

export function objectLock({
  kind,
  name,
  namespace,
}: {
  readonly kind: string;
  readonly name: string;
  readonly namespace?: string;
}): string {
  const isInTenant = findKind(kind)?.namesInTenant === true && namespace !== undefined;
  return isInTenant ? `object/${kind}/${namespace}/${name}` : `object/${kind}/${name}`;
}
