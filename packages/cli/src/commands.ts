// Every command of gpvectl. A new command adds its line here; help, completion and reference follow.
import type { CommandSpec } from "./command.ts";
import { aclGrant } from "./commands/acl/grant.ts";
import { aclList } from "./commands/acl/list.ts";
import { aclRevoke } from "./commands/acl/revoke.ts";
import { apiCommands } from "./commands/api/call.ts";
import { apiCoverage } from "./commands/api/coverage.ts";
import { auditList } from "./commands/audit/list.ts";
import { auditVerify } from "./commands/audit/verify.ts";
import { componentList } from "./commands/component/list.ts";
import { componentImport, componentInstall, componentVerify } from "./commands/component/make.ts";
import { contextAdd } from "./commands/context/add.ts";
import { contextList } from "./commands/context/list.ts";
import { contextRemove } from "./commands/context/remove.ts";
import { contextUse } from "./commands/context/use.ts";
import { groupCreate } from "./commands/group/create.ts";
import { groupDelete } from "./commands/group/delete.ts";
import { groupList } from "./commands/group/list.ts";
import { groupShow } from "./commands/group/show.ts";
import { haAdd, haMigrate, haRelocate, haRemove, haSet } from "./commands/ha/resource.ts";
import { haRuleAdd, haRuleRemove, haRules } from "./commands/ha/rule.ts";
import { haArm, haDisarm, haExplain, haMaintenance, haStatus } from "./commands/ha/status.ts";
import { imageList } from "./commands/image/list.ts";
import { imageBuild, imagePull } from "./commands/image/make.ts";
import { nodeCapabilities } from "./commands/node/capabilities.ts";
import { nodeCordon, nodeUncordon } from "./commands/node/cordon.ts";
import { nodeDrain } from "./commands/node/drain.ts";
import { serverJoinCommand } from "./commands/server/join-command.ts";
import { nodeJoinCommand } from "./commands/node/join-command.ts";
import { nodeLabel, nodeTaint } from "./commands/node/label.ts";
import { nodeList } from "./commands/node/list.ts";
import { nodeProbe } from "./commands/node/probe.ts";
import { nodeRemove } from "./commands/node/remove.ts";
import { nodeShow } from "./commands/node/show.ts";
import { objectApply } from "./commands/object/apply.ts";
import { objectDelete } from "./commands/object/delete.ts";
import { objectDescribe } from "./commands/object/describe.ts";
import { objectDiff } from "./commands/object/diff.ts";
import { objectGet } from "./commands/object/get.ts";
import { quotaSet } from "./commands/quota/set.ts";
import { quotaShow } from "./commands/quota/show.ts";
import { poolCreate } from "./commands/pool/create.ts";
import { poolDelete } from "./commands/pool/delete.ts";
import { poolList } from "./commands/pool/list.ts";
import { poolSet } from "./commands/pool/set.ts";
import { poolShow } from "./commands/pool/show.ts";
import { realmList } from "./commands/realm/list.ts";
import { roleCreate } from "./commands/role/create.ts";
import { roleDelete } from "./commands/role/delete.ts";
import { roleList } from "./commands/role/list.ts";
import { roleSet } from "./commands/role/set.ts";
import { roleShow } from "./commands/role/show.ts";
import { status } from "./commands/server/status.ts";
import { version } from "./commands/server/version.ts";
import { completionCommand } from "./commands/session/completion.ts";
import { login } from "./commands/session/login.ts";
import { logout } from "./commands/session/logout.ts";
import { storageContent } from "./commands/storage/content.ts";
import { storageCreate } from "./commands/storage/create.ts";
import { storageDelete } from "./commands/storage/delete.ts";
import { storageDownload } from "./commands/storage/download.ts";
import { storageList } from "./commands/storage/list.ts";
import { storageShow } from "./commands/storage/show.ts";
import { storageUpload } from "./commands/storage/upload.ts";
import { storeBackup } from "./commands/store/backup.ts";
import { storeMembers, storeRemoveMember } from "./commands/store/members.ts";
import { storeMigrate } from "./commands/store/migrate.ts";
import { storeRestore } from "./commands/store/restore.ts";
import { storeVerify } from "./commands/store/verify.ts";
import { rebalanceApprove, rebalancePlan } from "./commands/rebalance/rebalance.ts";
import {
  replicationAdd,
  replicationList,
  replicationLog,
  replicationRemove,
  replicationRun,
} from "./commands/replication/jobs.ts";
import { explainPlacement } from "./commands/scheduler/explain.ts";
import { simulateHa } from "./commands/simulate/ha.ts";
import { simulateNodeLoss } from "./commands/simulate/node-loss.ts";
import { simulatePlace } from "./commands/simulate/place.ts";
import { talosKubeconfig, talosTalosconfig } from "./commands/talos/access.ts";
import { talosAddonsList, talosAddonsShow, talosAddonsUpdate } from "./commands/talos/addons.ts";
import { talosImageAccept, talosImageList } from "./commands/talos/image.ts";
import { talosAdopt } from "./commands/talos/adopt.ts";
import { talosApply } from "./commands/talos/apply.ts";
import { talosBackupFiles, talosBackupUnpack } from "./commands/talos/backup/files.ts";
import {
  talosBackupList,
  talosBackupMachines,
  talosBackupRestore,
} from "./commands/talos/backup/machines.ts";
import { talosCheckUpdates } from "./commands/talos/check-updates.ts";
import { talosDestroy } from "./commands/talos/destroy.ts";
import { talosDrift } from "./commands/talos/drift.ts";
import { talosEtcdDrill } from "./commands/talos/etcd/drill.ts";
import { talosEtcdRestore, talosEtcdSnapshot, talosEtcdVerify } from "./commands/talos/etcd/snapshots.ts";
import { talosEtcdSchedule } from "./commands/talos/etcd/schedule.ts";
import { talosExplain } from "./commands/talos/file/explain.ts";
import { talosImport } from "./commands/talos/file/import.ts";
import { talosInit } from "./commands/talos/file/init.ts";
import { talosOutput } from "./commands/talos/file/output.ts";
import { talosPlan } from "./commands/talos/plan.ts";
import { talosPreflight } from "./commands/talos/preflight.ts";
import { talosReplace } from "./commands/talos/replace.ts";
import { talosRotateCa } from "./commands/talos/rotate-ca.ts";
import { talosReset } from "./commands/talos/reset.ts";
import { talosSwitch } from "./commands/talos/switch.ts";
import { talosRender } from "./commands/talos/file/render.ts";
import { talosSchema } from "./commands/talos/file/schema.ts";
import { talosSecretsExport, talosSecretsImport } from "./commands/talos/file/secrets.ts";
import { talosSet } from "./commands/talos/file/set.ts";
import { talosStatus, talosVerify } from "./commands/talos/status.ts";
import { talosScale, talosUpgrade } from "./commands/talos/upgrade.ts";
import { talosValidate } from "./commands/talos/file/validate.ts";
import { taskCancel } from "./commands/task/cancel.ts";
import { taskFollow } from "./commands/task/follow.ts";
import { taskList } from "./commands/task/list.ts";
import { taskShow } from "./commands/task/show.ts";
import { tokenCreate } from "./commands/token/create.ts";
import { tokenDelete } from "./commands/token/delete.ts";
import { tokenList } from "./commands/token/list.ts";
import { userCreate } from "./commands/user/create.ts";
import { userDelete } from "./commands/user/delete.ts";
import { userList } from "./commands/user/list.ts";
import { userPassword } from "./commands/user/password.ts";
import { userPermissions } from "./commands/user/permissions.ts";
import { userSet } from "./commands/user/set.ts";
import { userShow } from "./commands/user/show.ts";
import { vcCreate } from "./commands/vc/create.ts";
import { vcKubeconfig } from "./commands/vc/kubeconfig.ts";
import { vcDelete, vcList } from "./commands/vc/list.ts";
import { nodePods, vcPod } from "./commands/vc/pods.ts";
import { vcScale } from "./commands/vc/scale.ts";
import { vcShow } from "./commands/vc/show.ts";
import { vcRotateCa } from "./commands/vc/rotate-ca.ts";
import { vcBackup, vcBackups, vcMigrate, vcRestore, vcUpgrade } from "./commands/vc/save.ts";
import { vcEvents, vcKubeconfigs, vcLogs, vcPowerCommands, vcRevoke, vcSleep } from "./commands/vc/power.ts";
import { vmBackup } from "./commands/vm/backup.ts";
import { vmClone } from "./commands/vm/clone.ts";
import { vmConfig } from "./commands/vm/config.ts";
import { vmConsole } from "./commands/vm/console/console.ts";
import { vmCreate } from "./commands/vm/create.ts";
import { vmDelete } from "./commands/vm/delete.ts";
import { vmExec } from "./commands/vm/exec.ts";
import { vmList } from "./commands/vm/list.ts";
import { vmLogs } from "./commands/vm/logs.ts";
import { vmFailover } from "./commands/vm/failover.ts";
import { vmMigrate } from "./commands/vm/migrate.ts";
import { vmPowerCommands } from "./commands/vm/power.ts";
import { vmSet } from "./commands/vm/set.ts";
import { vmRestore } from "./commands/vm/restore.ts";
import { vmResize } from "./commands/vm/resize.ts";
import { vmScreenshot } from "./commands/vm/screenshot.ts";
import { vmShow } from "./commands/vm/show.ts";
import { vmSnapshotCreate } from "./commands/vm/snapshot/create.ts";
import { vmSnapshotDelete } from "./commands/vm/snapshot/delete.ts";
import { vmSnapshotList } from "./commands/vm/snapshot/list.ts";
import { vmSnapshotRollback } from "./commands/vm/snapshot/rollback.ts";
import { failedVmCommands } from "./commands/vm/failed.ts";
import { vmTemplate } from "./commands/vm/template.ts";
import { vmTunnel } from "./commands/vm/tunnel.ts";
import { vmVnc } from "./commands/vm/console/vnc.ts";

export const allCommands: readonly CommandSpec[] = [
  status,
  version,
  login,
  logout,
  objectGet,
  objectDescribe,
  objectApply,
  objectDiff,
  objectDelete,
  aclList,
  aclGrant,
  aclRevoke,
  ...apiCommands,
  apiCoverage,
  auditList,
  auditVerify,
  completionCommand(() => allCommands),
  componentList,
  componentInstall,
  componentVerify,
  componentImport,
  contextList,
  contextUse,
  contextAdd,
  contextRemove,
  groupList,
  groupShow,
  groupCreate,
  groupDelete,
  haStatus,
  haExplain,
  haAdd,
  haSet,
  haRemove,
  haMigrate,
  haRelocate,
  haRules,
  haRuleAdd,
  haRuleRemove,
  haMaintenance,
  haDisarm,
  haArm,
  imageList,
  imagePull,
  imageBuild,
  nodeList,
  nodeShow,
  nodeCapabilities,
  nodeProbe,
  nodePods,
  nodeRemove,
  nodeJoinCommand,
  nodeLabel,
  nodeTaint,
  nodeCordon,
  nodeUncordon,
  nodeDrain,
  poolList,
  poolShow,
  poolCreate,
  poolSet,
  poolDelete,
  serverJoinCommand,
  quotaShow,
  quotaSet,
  realmList,
  roleList,
  roleShow,
  roleCreate,
  roleSet,
  roleDelete,
  storageList,
  storageShow,
  storageCreate,
  storageDelete,
  simulateHa,
  simulateNodeLoss,
  simulatePlace,
  explainPlacement,
  rebalancePlan,
  rebalanceApprove,
  replicationList,
  replicationAdd,
  replicationRun,
  replicationLog,
  replicationRemove,
  storageContent,
  storageUpload,
  storageDownload,
  storeBackup,
  storeRestore,
  storeVerify,
  storeMigrate,
  storeMembers,
  storeRemoveMember,
  talosInit,
  talosImport,
  talosValidate,
  talosSet,
  talosPreflight,
  talosPlan,
  talosApply,
  talosStatus,
  talosVerify,
  talosAddonsList,
  talosAddonsShow,
  talosAddonsUpdate,
  talosImageList,
  talosImageAccept,
  talosScale,
  talosUpgrade,
  talosReplace,
  talosReset,
  talosSwitch,
  talosRotateCa,
  talosDrift,
  talosCheckUpdates,
  talosEtcdSnapshot,
  talosEtcdVerify,
  talosEtcdSchedule,
  talosEtcdRestore,
  talosEtcdDrill,
  talosBackupMachines,
  talosBackupList,
  talosBackupRestore,
  talosBackupFiles,
  talosBackupUnpack,
  talosAdopt,
  talosDestroy,
  talosRender,
  talosOutput,
  talosTalosconfig,
  talosKubeconfig,
  talosSchema,
  talosExplain,
  talosSecretsImport,
  talosSecretsExport,
  taskList,
  taskShow,
  taskFollow,
  taskCancel,
  tokenList,
  tokenCreate,
  tokenDelete,
  userList,
  userShow,
  userCreate,
  userSet,
  userDelete,
  userPassword,
  userPermissions,
  vcList,
  vcShow,
  vcCreate,
  vcKubeconfig,
  vcKubeconfigs,
  vcSleep,
  vcRevoke,
  ...vcPowerCommands,
  vcScale,
  vcEvents,
  vcLogs,
  vcPod,
  vcBackup,
  vcBackups,
  vcRestore,
  vcUpgrade,
  vcMigrate,
  vcRotateCa,
  vcDelete,
  vmList,
  vmShow,
  vmConfig,
  vmCreate,
  vmSet,
  ...vmPowerCommands,
  vmDelete,
  vmClone,
  vmMigrate,
  vmFailover,
  vmTemplate,
  ...failedVmCommands,
  vmResize,
  vmSnapshotList,
  vmSnapshotCreate,
  vmSnapshotRollback,
  vmSnapshotDelete,
  vmBackup,
  vmRestore,
  vmExec,
  vmConsole,
  vmVnc,
  vmTunnel,
  vmScreenshot,
  vmLogs,
];
