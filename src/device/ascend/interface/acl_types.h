/* AscendCL's C interface as Reprise uses it: base types, codes and enumerations. Own declarations of the public binary
 * interface of CANN's runtime; names and numbers are its. Plain C, so that programs in C can use them too. */
#ifndef REPRISE_ACL_TYPES_H
#define REPRISE_ACL_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef int aclError;
typedef int32_t aclnnStatus;
typedef uint16_t aclFloat16;

typedef void* aclrtStream;
typedef void* aclrtEvent;
typedef void* aclrtContext;
typedef void* aclrtNotify;
typedef void* aclrtTaskGrp;
typedef void* aclrtFuncHandle;
typedef void* aclrtArgsHandle;
typedef void* aclmdlRI;
typedef void* aclmdlRITask;
typedef void* aclmdlRICondHandle;

typedef void (*aclrtCallback)(void* user_data);
typedef void (*aclrtHostFunc)(void* arguments);

/* Codes of the acl layer, checked before the runtime's. */
enum {
  ACL_SUCCESS = 0,
  ACL_ERROR_INVALID_PARAM = 100000,
  ACL_ERROR_UNINITIALIZE = 100001,
  ACL_ERROR_REPEAT_INITIALIZE = 100002,
  ACL_ERROR_REPEAT_FINALIZE = 100037,
  ACL_ERROR_BAD_ALLOC = 200000,
  ACL_ERROR_API_NOT_SUPPORT = 200001,
  ACL_ERROR_INVALID_DEVICE = 200002,
  ACL_ERROR_INVALID_RESOURCE_HANDLE = 200005,
  ACL_ERROR_FEATURE_UNSUPPORTED = 200006,
  ACL_ERROR_STORAGE_OVER_LIMIT = 300000,
  ACL_ERROR_INTERNAL_ERROR = 500000,
  ACL_ERROR_FAILURE = 500001,
  ACL_ERROR_RT_FAILURE = 500003,
};

/* Codes of the runtime. */
enum {
  ACL_ERROR_RT_PARAM_INVALID = 107000,
  ACL_ERROR_RT_INVALID_DEVICEID = 107001,
  ACL_ERROR_RT_CONTEXT_NULL = 107002,
  ACL_ERROR_RT_STREAM_CONTEXT = 107003,
  ACL_ERROR_RT_MODEL_CONTEXT = 107004,
  ACL_ERROR_RT_STREAM_MODEL = 107005,
  ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID = 107006,
  ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL = 107007,
  ACL_ERROR_RT_ADDR_UNALIGNED = 107008,
  ACL_ERROR_RT_STREAM_NO_CB_REG = 107015,
  ACL_ERROR_RT_INVALID_HANDLE = 107017,
  ACL_ERROR_RT_INVALID_MALLOC_TYPE = 107018,
  ACL_ERROR_RT_WAIT_TIMEOUT = 107019,
  ACL_ERROR_RT_TASK_TIMEOUT = 107020,
  ACL_ERROR_RT_DEVICE_TASK_ABORT = 107022,
  ACL_ERROR_RT_STREAM_ABORT = 107023,
  ACL_ERROR_RT_CAPTURE_DEPENDENCY = 107024,
  ACL_ERROR_RT_STREAM_UNJOINED = 107025,
  ACL_ERROR_RT_MODEL_CAPTURED = 107026,
  ACL_ERROR_RT_STREAM_CAPTURED = 107027,
  ACL_ERROR_RT_EVENT_CAPTURED = 107028,
  ACL_ERROR_RT_STREAM_NOT_CAPTURED = 107029,
  ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT = 107030,
  ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT = 107031,
  ACL_ERROR_STREAM_CAPTURE_CONFLICT = 107032,
  ACL_ERROR_STREAM_TASK_GROUP_STATUS = 107033,
  ACL_ERROR_STREAM_TASK_GROUP_INTR = 107034,
  ACL_ERROR_RT_TASK_ABORT_STOP = 107035,
  ACL_ERROR_RT_STREAM_CAPTURE_UNMATCHED = 107036,
  ACL_ERROR_RT_MODEL_RUNNING = 107037,
  ACL_ERROR_RT_STREAM_CAPTURE_WRONG_THREAD = 107038,
  ACL_ERROR_RT_INSUFFICIENT_INPUT_ARRAY = 107039,
  ACL_ERROR_RT_MODEL_UPDATE_FAILED = 107040,
  ACL_ERROR_RT_CAPTURE_MODE_BLOCK_ASYNC = 107041,
  ACL_ERROR_RT_SYMBOL_NOT_FOUND = 107042,
  ACL_ERROR_RT_SUB_ACLGRAPH_IS_CAPTURING = 107045,
  ACL_ERROR_RT_FEATURE_NOT_SUPPORT = 207000,
  ACL_ERROR_RT_MEMORY_ALLOCATION = 207001,
  ACL_ERROR_RT_MEMORY_FREE = 207002,
  ACL_ERROR_RT_RESOURCE_ALLOC_FAIL = 207005,
  ACL_ERROR_RT_NO_EVENT_RESOURCE = 207007,
  ACL_ERROR_RT_NO_STREAM_RESOURCE = 207008,
  ACL_ERROR_RT_NO_NOTIFY_RESOURCE = 207009,
  ACL_ERROR_RT_NO_MODEL_RESOURCE = 207010,
  ACL_ERROR_RT_OVER_LIMIT = 207012,
  ACL_ERROR_RT_DEVICE_OOM = 207018,
  ACL_ERROR_RT_FEATURE_NOT_SUPPORT_UPDATE_OP = 207019,
  ACL_ERROR_RT_INTERNAL_ERROR = 507000,
  ACL_ERROR_RT_STREAM_TASK_FULL = 507002,
  ACL_ERROR_RT_STREAM_NOT_COMPLETE = 507004,
  ACL_ERROR_RT_EVENT_NOT_COMPLETE = 507006,
  ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT = 507009,
  ACL_ERROR_RT_MODEL_EXECUTE = 507011,
  ACL_ERROR_RT_AICORE_TIMEOUT = 507014,
  ACL_ERROR_RT_AICORE_EXCEPTION = 507015,
  ACL_ERROR_RT_STREAM_SYNC_TIMEOUT = 507046,
  ACL_ERROR_RT_EVENT_SYNC_TIMEOUT = 507047,
  ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED = 507903,
};

/* Codes of the operators' interface (aclnnStatus). */
enum {
  ACLNN_SUCCESS = 0,
  ACLNN_ERR_PARAM_NULLPTR = 161001,
  ACLNN_ERR_PARAM_INVALID = 161002,
  ACLNN_ERR_RUNTIME_ERROR = 361001,
  ACLNN_ERR_INNER = 561000,
  ACLNN_ERR_INNER_INFERSHAPE_ERROR = 561001,
  ACLNN_ERR_INNER_TILING_ERROR = 561002,
  ACLNN_ERR_INNER_FIND_KERNEL_ERROR = 561003,
  ACLNN_ERR_INNER_CREATE_EXECUTOR = 561101,
  ACLNN_ERR_INNER_NOT_TRANS_EXECUTOR = 561102,
  ACLNN_ERR_INNER_NULLPTR = 561103,
};

typedef enum {
  ACL_DT_UNDEFINED = -1,
  ACL_FLOAT = 0,
  ACL_FLOAT16 = 1,
  ACL_INT8 = 2,
  ACL_INT32 = 3,
  ACL_UINT8 = 4,
  ACL_INT16 = 6,
  ACL_UINT16 = 7,
  ACL_UINT32 = 8,
  ACL_INT64 = 9,
  ACL_UINT64 = 10,
  ACL_DOUBLE = 11,
  ACL_BOOL = 12,
  ACL_STRING = 13,
  ACL_BF16 = 27,
  ACL_INT4 = 29,
} aclDataType;

typedef enum {
  ACL_FORMAT_UNDEFINED = -1,
  ACL_FORMAT_NCHW = 0,
  ACL_FORMAT_NHWC = 1,
  ACL_FORMAT_ND = 2,
  ACL_FORMAT_NCDHW = 30,
  ACL_FORMAT_FRACTAL_NZ = 29,
  ACL_FORMAT_NC = 35,
  ACL_FORMAT_NCL = 47,
} aclFormat;

typedef enum {
  ACL_MEMCPY_HOST_TO_HOST = 0,
  ACL_MEMCPY_HOST_TO_DEVICE = 1,
  ACL_MEMCPY_DEVICE_TO_HOST = 2,
  ACL_MEMCPY_DEVICE_TO_DEVICE = 3,
  ACL_MEMCPY_DEFAULT = 4,
  ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE = 5,
  ACL_MEMCPY_INNER_DEVICE_TO_DEVICE = 6,
  ACL_MEMCPY_INTER_DEVICE_TO_DEVICE = 7,
} aclrtMemcpyKind;

typedef enum {
  ACL_MEM_MALLOC_HUGE_FIRST = 0,
  ACL_MEM_MALLOC_HUGE_ONLY = 1,
  ACL_MEM_MALLOC_NORMAL_ONLY = 2,
  ACL_MEM_MALLOC_HUGE_FIRST_P2P = 3,
  ACL_MEM_MALLOC_HUGE_ONLY_P2P = 4,
  ACL_MEM_MALLOC_NORMAL_ONLY_P2P = 5,
  ACL_MEM_MALLOC_HUGE1G_ONLY = 6,
  ACL_MEM_MALLOC_HUGE1G_ONLY_P2P = 7,
  ACL_MEM_TYPE_LOW_BAND_WIDTH = 0x0100,
  ACL_MEM_TYPE_HIGH_BAND_WIDTH = 0x1000,
} aclrtMemMallocPolicy;

typedef enum {
  ACL_DDR_MEM = 0,
  ACL_HBM_MEM = 1,
  ACL_DDR_MEM_HUGE = 2,
  ACL_DDR_MEM_NORMAL = 3,
  ACL_HBM_MEM_HUGE = 4,
  ACL_HBM_MEM_NORMAL = 5,
} aclrtMemAttr;

/* Flags of events and of their record and wait. */
enum {
  ACL_EVENT_SYNC = 0x1,
  ACL_EVENT_CAPTURE_STREAM_PROGRESS = 0x2,
  ACL_EVENT_TIME_LINE = 0x8,
  ACL_EVENT_DEVICE_USE_ONLY = 0x10,
  ACL_EVENT_EXTERNAL = 0x20,
  ACL_EVENT_IPC = 0x40,
  ACL_EVENT_RECORD_DEFAULT = 0,
  ACL_EVENT_RECORD_EXTERNAL = 1,
  ACL_EVENT_WAIT_DEFAULT = 0,
  ACL_EVENT_WAIT_EXTERNAL = 1,
};

typedef enum { ACL_EVENT_STATUS_COMPLETE = 0, ACL_EVENT_STATUS_NOT_READY = 1 } aclrtEventStatus;
/* The opposite polarity of aclrtEventStatus. */
typedef enum {
  ACL_EVENT_RECORDED_STATUS_NOT_READY = 0,
  ACL_EVENT_RECORDED_STATUS_COMPLETE = 1
} aclrtEventRecordedStatus;
typedef enum {
  ACL_EVENT_WAIT_STATUS_COMPLETE = 0,
  ACL_EVENT_WAIT_STATUS_NOT_READY = 1,
  ACL_EVENT_WAIT_STATUS_RESERVED = 0xFFFF,
} aclrtEventWaitStatus;
typedef enum {
  ACL_STREAM_STATUS_COMPLETE = 0,
  ACL_STREAM_STATUS_NOT_READY = 1,
  ACL_STREAM_STATUS_RESERVED = 0xFFFF,
} aclrtStreamStatus;

/* Flags of streams. */
enum {
  ACL_STREAM_FAST_LAUNCH = 0x1,
  ACL_STREAM_FAST_SYNC = 0x2,
  ACL_STREAM_PERSISTENT = 0x4,
  ACL_STREAM_HUGE = 0x8,
  ACL_STREAM_CPU_SCHEDULE = 0x10,
  ACL_STREAM_DEVICE_USE_ONLY = 0x20,
};

typedef enum {
  ACL_STREAM_ATTR_FAILURE_MODE = 1,
  ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK = 2,
  ACL_STREAM_ATTR_USER_CUSTOM_TAG = 3,
  ACL_STREAM_ATTR_CACHE_OP_INFO = 4,
  ACL_STREAM_ATTR_PRIORITY = 5,
} aclrtStreamAttr;

typedef union {
  uint64_t failureMode;
  uint32_t overflowSwitch;
  uint32_t userCustomTag;
  uint32_t cacheOpInfoSwitch;
  uint32_t streamPriority;
  uint32_t reserve[4];
} aclrtStreamAttrValue;

enum { ACL_CONTINUE_ON_FAILURE = 0, ACL_STOP_ON_FAILURE = 1 };

typedef struct {
  void* workptr;
  size_t workSize;
  size_t flag;
  uint32_t priority;
} aclrtStreamConfigHandle;

typedef enum {
  ACL_MODEL_RI_CAPTURE_MODE_GLOBAL = 0,
  ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL = 1,
  ACL_MODEL_RI_CAPTURE_MODE_RELAXED = 2,
} aclmdlRICaptureMode;

typedef enum {
  ACL_MODEL_RI_CAPTURE_STATUS_NONE = 0,
  ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE = 1,
  ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED = 2,
} aclmdlRICaptureStatus;

enum { ACL_MODEL_RI_JSON_SUMMARY = 0, ACL_MODEL_RI_JSON_VERBOSE = 1 };

typedef enum {
  ACL_MODEL_RI_TASK_DEFAULT = 0,
  ACL_MODEL_RI_TASK_KERNEL = 1,
  ACL_MODEL_RI_TASK_EVENT_RECORD = 2,
  ACL_MODEL_RI_TASK_EVENT_WAIT = 3,
  ACL_MODEL_RI_TASK_EVENT_RESET = 4,
  ACL_MODEL_RI_TASK_VALUE_WRITE = 5,
  ACL_MODEL_RI_TASK_VALUE_WAIT = 6,
} aclmdlRITaskType;

typedef enum {
  ACL_MODEL_RI_COND_IF = 0,
  ACL_MODEL_RI_COND_WHILE = 1,
  ACL_MODEL_RI_COND_SWITCH = 2
} aclmdlRICondTaskType;
enum { ACL_MODEL_RI_COND_ASSIGN_DEFAULT = 1 };

/* How aclrtValueWait compares the word at an address with a value. */
enum { ACL_VALUE_WAIT_GEQ = 0, ACL_VALUE_WAIT_EQ = 1, ACL_VALUE_WAIT_AND = 2, ACL_VALUE_WAIT_NOR = 3 };

typedef enum { ACL_RT_DEV_RES_CUBE_CORE = 0, ACL_RT_DEV_RES_VECTOR_CORE = 1 } aclrtDevResLimitType;

typedef enum {
  ACL_DEV_ATTR_AICPU_CORE_NUM = 1,
  ACL_DEV_ATTR_AICORE_CORE_NUM = 101,
  ACL_DEV_ATTR_CUBE_CORE_NUM = 102,
  ACL_DEV_ATTR_VECTOR_CORE_NUM = 201,
  ACL_DEV_ATTR_UBUF_PER_VECTOR_CORE = 204,
  ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE = 301,
  ACL_DEV_ATTR_L2_CACHE_SIZE = 302,
  ACL_DEV_ATTR_NPU_ARCH = 601,
} aclrtDevAttr;

typedef enum {
  ACL_OPT_DETERMINISTIC = 0,
  ACL_OPT_ENABLE_DEBUG_KERNEL = 1,
  ACL_OPT_STRONG_CONSISTENCY = 2,
  ACL_OPT_KERNEL_EARLY_START = 3,
} aclSysParamOpt;

typedef enum { ACL_DEVICE = 0, ACL_HOST = 1 } aclrtRunMode;
typedef enum { ACL_CALLBACK_NO_BLOCK = 0, ACL_CALLBACK_BLOCK = 1 } aclrtCallbackBlockType;
typedef enum { ACL_RT_THREAD_LEVEL = 0 } aclrtLastErrLevel;

typedef enum {
  ACL_RT_LAUNCH_KERNEL_ATTR_SCHEM_MODE = 1,
  ACL_RT_LAUNCH_KERNEL_ATTR_DYN_UBUF_SIZE = 2,
  ACL_RT_LAUNCH_KERNEL_ATTR_ENGINE_TYPE = 3,
  ACL_RT_LAUNCH_KERNEL_ATTR_BLOCKDIM_OFFSET = 4,
  ACL_RT_LAUNCH_KERNEL_ATTR_BLOCK_TASK_PREFETCH = 5,
  ACL_RT_LAUNCH_KERNEL_ATTR_DATA_DUMP = 6,
  ACL_RT_LAUNCH_KERNEL_ATTR_TIMEOUT = 7,
  ACL_RT_LAUNCH_KERNEL_ATTR_TIMEOUT_US = 8,
  ACL_RT_LAUNCH_KERNEL_ATTR_ENABLE_PROFILING = 9,
} aclrtLaunchKernelAttrId;

typedef union {
  uint8_t schemMode;
  uint32_t dynUBufSize;
  uint32_t blockDimOffset;
  uint8_t flags;
  uint16_t timeout;
  struct {
    uint32_t timeoutLow;
    uint32_t timeoutHigh;
  } timeoutUs;
  uint32_t rsv[4];
} aclrtLaunchKernelAttrValue;

typedef struct {
  aclrtLaunchKernelAttrId id;
  aclrtLaunchKernelAttrValue value;
} aclrtLaunchKernelAttr;

typedef struct {
  aclrtLaunchKernelAttr* attrs;
  size_t numAttrs;
} aclrtLaunchKernelCfg;

typedef struct {
  aclrtFuncHandle funcHandle;
  aclrtLaunchKernelCfg* cfg;
  void* args;
  uint32_t isHostArgs;
  size_t argsSize;
  uint32_t numBlocks;
  uint32_t rsv[10];
} aclmdlRIKernelTaskParams;

typedef struct {
  aclrtEvent event;
  uint32_t eventFlag;
  uint32_t recordFlag;
} aclmdlRIEventRecordTaskParams;
typedef struct {
  aclrtEvent event;
  uint32_t eventFlag;
  uint32_t waitFlag;
} aclmdlRIEventWaitTaskParams;
typedef struct {
  aclrtEvent event;
  uint32_t eventFlag;
  uint32_t resetFlag;
} aclmdlRIEventResetTaskParams;
typedef struct {
  void* devAddr;
  uint64_t value;
} aclmdlRIValueWriteTaskParams;
typedef struct {
  void* devAddr;
  uint64_t value;
  uint32_t flag;
} aclmdlRIValueWaitTaskParams;

typedef struct {
  aclmdlRITaskType type;
  uint32_t rsv0[3];
  aclrtTaskGrp taskGrp;
  void* opInfoPtr;
  size_t opInfoSize;
  uint8_t rsv1[32];
  union {
    uint8_t rsv2[128];
    aclmdlRIKernelTaskParams kernelTaskParams;
    aclmdlRIEventRecordTaskParams eventRecordTaskParams;
    aclmdlRIEventWaitTaskParams eventWaitTaskParams;
    aclmdlRIEventResetTaskParams eventResetTaskParams;
    aclmdlRIValueWriteTaskParams valueWriteTaskParams;
    aclmdlRIValueWaitTaskParams valueWaitTaskParams;
  };
} aclmdlRITaskParams;

typedef struct {
  aclmdlRICondHandle handle;
  aclmdlRICondTaskType type;
  uint32_t size;
  aclmdlRI* modelRIArray;
} aclmdlRICondTaskParams;

#endif /* REPRISE_ACL_TYPES_H */
