// What somebody may do at one path, asked once.
import type { AccessModel } from "../model.ts";
import { type Effective, privilegeSource } from "../privileges.ts";

export function rolesAt(model: AccessModel, authid: string, path: string): Effective {
  return privilegeSource(model, authid, 0).roles(path);
}

export function privilegesAt(model: AccessModel, authid: string, path: string, nowSeconds = 0): Effective {
  return privilegeSource(model, authid, nowSeconds).privileges(path);
}
